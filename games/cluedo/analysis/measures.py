"""Measures of play in Cluedo; `CluedoAssessor` computes them."""

from __future__ import annotations

from arena import Measure
from arena.core.assessment import Fact

TURNS = range(1, 21)
"""Own turns for which the entropy is recorded."""
BINS = range(10)
"""Stated probabilities are grouped by their first decimal."""


def _per_bin(name: str, title: str, quantity: str) -> tuple[Measure, ...]:
    """Return one measure for each tenth of the stated probability; `title` has a place for it."""
    return tuple(
        Measure(
            f"{name}/{number}",
            title.format(number / 10),
            "probability",
            None,
            f"{quantity} probability that a card is in the envelope, over statements from "
            f"{number / 10:.1f} to {(number + 1) / 10:.1f}; cards seen in the deal are left out.",
        )
        for number in BINS
    )


MEASURES: tuple[Measure, ...] = (
    # Questions
    Measure(
        "efficiency",
        "question efficiency",
        "share",
        "higher",
        "Expected information of the questions asked, over that of the best legal questions; both "
        "exact, given what the player could know. The best is searched among the most promising "
        "questions, which loses under 0.5 % on average. The oracle bot searches in the same way, "
        "so it has 100 %.",
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
        "Bits that the player's questions gained, minus the bits that the exact posterior expected "
        "of them. The mean is near 0 but not 0, because players ask for cards that they do not "
        "hold and some show the card that gives least information; the posterior assumes neither. "
        "Therefore only the difference between players at one table is used as luck.",
    ),
    # Accusations
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
        "Accusations whose envelope was less probable than the break-even, over accusations. The "
        "break-even is the probability above which accusing wins as often as waiting: an estimate "
        "from the player's uncertainty and the number of rivals left.",
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
        "Own turns between the decision at which the envelope was first provable and the player's "
        "accusation, over games in which it was provable. If other players ended the game first, "
        "the turns until the end count, so that the mean is a lower bound.",
    ),
    # Refutations
    Measure(
        "leaked",
        "bits shown",
        "bits per refutation",
        "lower",
        "Bits about the envelope that the card shown gave to the suggester, who already knew the "
        "refuter; over refutations.",
    ),
    Measure(
        "excess_leak",
        "bits shown needlessly",
        "bits per choice",
        "lower",
        "Bits that the card shown gave to the suggester, minus those of the card that gives least; "
        "over refutations with several cards to choose from.",
    ),
    # Stated beliefs
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
        "Answers to the question about beliefs that stated none, over all answers to it.",
    ),
    # Series, for plots
    *(
        Measure(
            f"entropy/{turn}",
            f"entropy at turn {turn}",
            "bits",
            "lower",
            f"Entropy of the envelope in the player's exact view at the start of its turn {turn}, "
            "over games that reached it.",
        )
        for turn in TURNS
    ),
    *_per_bin("stated", "stated probability, from {:.1f}", "Stated"),
    *_per_bin("calibration", "exact probability where {:.1f} is stated", "Exact"),
)

FACTS: dict[str, Fact] = {
    "expected": Fact("bits", "expected information of the question"),
    "best": Fact("bits", "expected information of the best question", of_position=True),
    "leaked": Fact("bits", "information that the shown card gave to the suggester"),
    "least": Fact("bits", "information of the card that gives least", of_position=True),
    "choices": Fact("", "cards that could be shown", of_position=True),
    "probability": Fact("%", "probability that the accusation is right, given the seat's view"),
    "break_even": Fact("%", "probability above which an accusation pays", of_position=True),
}
"""Descriptions of the facts of assessments, by name."""
