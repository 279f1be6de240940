"""What is measured of a player of Cluedo; `assess` computes it."""

from __future__ import annotations

from arena import Measure

TURNS = range(1, 21)
"""Own turns for which the entropy is recorded."""
BINS = range(10)
"""Stated probabilities are grouped by their first decimal."""

_OF_QUESTIONS = (
    Measure(
        "efficiency",
        "question efficiency",
        "share",
        "higher",
        "Expected information of the questions asked, over that of the best legal questions; both "
        "exact, given what the player could know. The best is looked for among the most promising, "
        "which loses under 0.5 % on average; an oracle looks the same way, so it has 100 %.",
    ),
    Measure(
        "bits",
        "bits per question",
        "bits per question",
        "higher",
        "Entropy of the envelope, in the suggester's exact view, before each question minus after "
        "its answer; over questions.",
    ),
    Measure(
        "bits_per_turn",
        "bits per turn",
        "bits per turn",
        "higher",
        "Bits gained by the player's own questions, over its own turns.",
    ),
    Measure(
        "luck",
        "luck",
        "bits per question",
        None,
        "Bits that the player's questions gained beyond what the exact posterior expected of them. "
        "Its mean is near 0 but not 0 (players ask for cards that they do not hold, and some show "
        "the card that tells least; the posterior assumes neither), so that only the difference "
        "between players at one table is taken for luck.",
    ),
)

_OF_ACCUSATIONS = (
    Measure(
        "accusations_right",
        "right accusations",
        "share",
        "higher",
        "Accusations that were right, over accusations.",
    ),
    Measure(
        "accusation_probability",
        "probability of accusations",
        "probability",
        "higher",
        "Exact probability, in the accuser's view, of the envelope that it named; over "
        "accusations.",
    ),
    Measure(
        "premature",
        "premature accusations",
        "share",
        "lower",
        "Accusations whose envelope was less probable than the break-even from which accusing wins "
        "as often as waiting (an estimate, by the player's uncertainty and the rivals left), over "
        "accusations.",
    ),
    Measure(
        "missed",
        "missed accusations",
        "share",
        "lower",
        "Turns in which the envelope was provable and was not accused, over all turns in which "
        "it was provable at the last decision.",
    ),
    Measure(
        "turns_to_accuse",
        "turns to accuse",
        "turns",
        "lower",
        "Own turns that a player let pass between the decision at which the envelope was first "
        "provable and its accusation, over games in which it was provable. Where others ended "
        "the game first these are the turns until then, so that the mean is a lower bound.",
    ),
)

_OF_REFUTATIONS = (
    Measure(
        "leaked",
        "bits shown",
        "bits per refutation",
        "lower",
        "Bits about the envelope that the card shown gave the suggester, once it knew who would "
        "refute; over refutations.",
    ),
    Measure(
        "excess_leak",
        "bits shown needlessly",
        "bits per choice",
        "lower",
        "Bits that the card shown gave the suggester beyond what the least telling card would "
        "have given it, over refutations with several cards to choose from.",
    ),
)

_OF_BELIEFS = (
    Measure(
        "log_score",
        "logarithmic score of beliefs",
        "bits per answer",
        "lower",
        "Relative entropy from the stated to the exact probabilities of the envelope's cards, "
        "summed over the three categories; over answers.",
    ),
    Measure(
        "brier",
        "Brier score of beliefs",
        "per answer",
        "lower",
        "Squared distance of the stated from the exact probabilities of the envelope's cards, "
        "summed over the three categories; over answers.",
    ),
    Measure(
        "precision",
        "precision of deductions",
        "share",
        "higher",
        "Cards whose place was claimed as certain and was provable, over cards whose place was "
        "claimed as certain; own cards left out.",
    ),
    Measure(
        "recall",
        "recall of deductions",
        "share",
        "higher",
        "Cards whose place was claimed as certain and was provable, over cards whose place was "
        "provable; own cards left out.",
    ),
    Measure(
        "belief_failures",
        "answers without beliefs",
        "share",
        "lower",
        "Answers to the question for beliefs that stated none, over all that were asked for.",
    ),
)

_SERIES = (
    *(
        Measure(
            f"entropy/{turn}",
            f"entropy at turn {turn}",
            "bits",
            "lower",
            f"Entropy of the envelope in the player's exact view as its turn {turn} begins, over "
            "games that went so far.",
        )
        for turn in TURNS
    ),
    *(
        Measure(
            f"stated/{number}",
            f"stated probability, from {number / 10:.1f}",
            "probability",
            None,
            "Probability that a card is in the envelope, as it was stated, over statements from "
            f"{number / 10:.1f} to {(number + 1) / 10:.1f}; cards seen in the deal are left out.",
        )
        for number in BINS
    ),
    *(
        Measure(
            f"calibration/{number}",
            f"exact probability where {number / 10:.1f} is stated",
            "probability",
            None,
            "Exact probability that a card is in the envelope, over statements from "
            f"{number / 10:.1f} to {(number + 1) / 10:.1f}; cards seen in the deal are left out.",
        )
        for number in BINS
    ),
)

MEASURES: tuple[Measure, ...] = (
    *_OF_QUESTIONS,
    *_OF_ACCUSATIONS,
    *_OF_REFUTATIONS,
    *_OF_BELIEFS,
    *_SERIES,
)
