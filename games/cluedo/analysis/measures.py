"""Measures of play in Cluedo; `CluedoAssessor` computes them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from arena import Measure
from arena.core.analysis import Fact

TURNS = range(1, 21)
"""Own turns for which the entropy is recorded."""


INFERENCES = {
    "shown": "that another player showed to it",
    "one_of_three": "that a player must have shown to another, since it lacks the other two",
    "counting": "that follow from the sizes of hands, or from several suggestions together",
    "cannot_show": "that no other player holds, so that the envelope does",
    "exclusion": "that the envelope holds, since all others of the kind are elsewhere",
}
"""Cards whose place is certain, by the inference that shows it."""


class GameStage(NamedTuple):
    """Part of a game, by the share of its uncertainty that a player still has."""

    measure: str
    title: str
    least: float
    """Least share of the entropy after the deal."""
    when: str


STAGES: tuple[GameStage, ...] = (
    GameStage(
        "efficiency_early", "early", 2 / 3, "over two thirds of the entropy after the deal is"
    ),
    GameStage(
        "efficiency_middle", "middle", 1 / 3, "one to two thirds of the entropy after the deal is"
    ),
    GameStage("efficiency_late", "late", 0.0, "under one third of the entropy after the deal is"),
)
"""Stages of a game for one player, the earliest first. Later questions are harder to choose, and
how many there are depends on when a rival ends the game. So each stage has its own measure."""

_QUESTIONS = tuple(
    Measure(
        stage.measure,
        f"question efficiency, {stage.title}",
        "share",
        "higher",
        "Expected information of the questions asked, over that of the best legal questions; "
        "both exact, given what the player could know. A turn that ended without a question "
        "counts as one of 0 bits. Over questions asked while "
        f"{stage.when} left. The best is searched among the most promising questions, which "
        "loses under 0.5 % on average. The oracle bot searches in the same way: it has 100 %.",
    )
    for stage in STAGES
)

_ACCUSATIONS = (
    Measure(
        "accusations_right",
        "right accusations",
        "share",
        "higher",
        "Accusations that were right, over accusations. Only games in which the player accuses: "
        "rivals may end a game before.",
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
        "missed_deduced",
        "certain by deduction and not accused",
        "share",
        "lower",
        "First turns in which the envelope was provable, but not from seen cards alone, and was "
        "not accused; over such turns, at most one per game. The last decision of the turn "
        "counts.",
    ),
    Measure(
        "missed_seen",
        "certain from seen cards and not accused",
        "share",
        "lower",
        "The same where the cards that the player saw, and its own questions that no seat could "
        "refute, leave one envelope without any deduction.",
    ),
)

_REFUTATIONS = (
    Measure(
        "leak_ratio",
        "needless bits shown",
        "relative to a random card",
        "lower",
        "Bits about the envelope that the card shown gave to the suggester beyond the card that "
        "gives least, over the same for a card drawn at random; over refutations with several "
        "cards to choose from. 0 gives least, 1 is as much as at random, in games of any length.",
    ),
)

_ONE_GAME = (
    Measure(
        "efficiency",
        "question efficiency",
        "share",
        "higher",
        "Expected information of the questions asked, over that of the best legal questions. Turns "
        "without a question do not count.",
        comparable=False,
    ),
    Measure(
        "missed",
        "missed accusations",
        "share",
        "lower",
        "Turns in which the envelope was provable and was not accused, over all turns in which "
        "it was provable at the last decision.",
        comparable=False,
    ),
    Measure(
        "excess_leak",
        "excess bits shown",
        "bits per choice",
        "lower",
        "Bits that the card shown gave to the suggester, minus those of the card that gives least; "
        "over refutations with several cards to choose from.",
        comparable=False,
    ),
)
"""Measures for rewards and for the summary of one game: they depend on its length."""

_BELIEFS = (
    Measure(
        "belief_error",
        "error of beliefs",
        "relative to seen cards",
        "lower",
        "Relative entropy from the stated to the exact probabilities of the envelope's cards, over "
        "that of beliefs without any deduction: equal probabilities for all cards that the player "
        "has not seen. Over answers; 0 is exact, 1 is no deduction.",
    ),
    Measure(
        "deduced_precision",
        "precision of deductions",
        "share",
        "higher",
        "Cards whose place was claimed as certain and was provable, over cards whose place was "
        "claimed as certain; own cards and those whose place was seen left out.",
    ),
    Measure(
        "deduced_recall",
        "recall of deductions",
        "share",
        "higher",
        "Cards whose place was claimed as certain and was provable, over cards whose place was "
        "provable; own cards and those whose place was seen left out.",
    ),
    *(
        Measure(
            f"recall_{name}",
            f"recall, {name.replace('_', ' ')}",
            "share",
            "higher",
            f"Cards {about}: those whose place was stated as certain, over those whose place was "
            "provable; over answers.",
        )
        for name, about in INFERENCES.items()
    ),
    Measure(
        "belief_failures",
        "answers without beliefs",
        "share",
        "lower",
        "Answers to the question about beliefs that stated none, over all answers to it.",
    ),
)

_SERIES = tuple(
    Measure(
        f"entropy/{turn}",
        f"entropy at turn {turn}",
        "bits",
        "lower",
        f"Entropy of the envelope in the player's exact view at the start of its turn {turn}, "
        "over games that reached it.",
    )
    for turn in TURNS
)

_KINDS = {
    **dict.fromkeys(("missed", "missed_seen", "missed_deduced"), "accusation, missed accusation"),
    **dict.fromkeys((stage.measure for stage in STAGES), "suggestion, skipped question"),
    "efficiency": "suggestion",
    **dict.fromkeys(("accusations_right", "accusation_probability", "premature"), "accusation"),
    **dict.fromkeys(("leak_ratio", "excess_leak"), "refutation"),
    **dict.fromkeys((measure.name for measure in _BELIEFS), "beliefs"),
    **dict.fromkeys((measure.name for measure in _SERIES), "turn"),
}
"""Kinds of assessments that measure each."""

MEASURES = tuple(
    replace(measure, kinds=tuple(_KINDS[measure.name].split(", ")))
    for measure in (*_QUESTIONS, *_ACCUSATIONS, *_REFUTATIONS, *_ONE_GAME, *_BELIEFS, *_SERIES)
)

FACTS: dict[str, Fact] = {
    "expected": Fact("bits", "expected information of the question", ranks="questions"),
    "best": Fact("bits", "expected information of the best question"),
    "leaked": Fact("bits", "information that the shown card gave to the suggester"),
    "least": Fact("bits", "information of the card that gives least"),
    "choices": Fact("", "cards that could be shown"),
    "probability": Fact(
        "%", "probability that the accusation is right, given the seat's view", ranks="accusations"
    ),
    "break_even": Fact("%", "probability above which an accusation pays"),
}
"""Descriptions of the facts of assessments, by name."""
