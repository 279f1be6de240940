"""Comments on games of Cluedo: the text, the mistakes, and the viewers that may read them."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from arena.core.analysis import Assessment, Comment
from games.cluedo.game import Cluedo

GAME = Cluedo(players=3)
QUESTION: list[JsonValue] = ["Miss Scarlett", "Rope", "Hall"]


def commented(kind: str, **facts: JsonValue) -> Comment:
    comment = GAME.analysis.comment(Assessment(7, 1, kind, facts))
    assert comment is not None
    return comment


def answered(gained: float, expected: float) -> Comment | None:
    facts = {"gained": gained, "expected": expected}
    before = {"entropy_before": 5.0, "entropy_after": 5.0 - gained}
    return GAME.analysis.comment(Assessment(7, 1, "answer", facts | before))


def answer_text(gained: float, expected: float) -> str:
    comment = answered(gained, expected)
    assert comment is not None
    return comment.text


def asked(expected: float, best: float, before: float = 5.0) -> Comment:
    facts = {"expected": expected, "best": best, "entropy_before": before}
    return commented("suggestion", best_question=QUESTION, **facts)


def accused(probability: float, break_even: float, correct: bool, provable: bool) -> Comment:
    facts = {"probability": probability, "break_even": break_even}
    return commented("accusation", correct=correct, provable=provable, **facts)


def refuted(leaked: float, least: float, choices: int) -> Comment:
    return commented("refutation", leaked=leaked, least=least, choices=choices)


def test_a_question_beside_the_best_one() -> None:
    assert asked(1.1, 1.42) == Comment(
        "Expected 1.10 bits; the best question (Miss Scarlett, Rope, Hall): 1.42 bits."
    )
    assert asked(1.42, 1.42) == Comment("Expected 1.42 bits; no question was better.")


def test_what_an_answer_brought() -> None:
    assert answer_text(1.31, 1.1) == "Gained 1.31 bits; 1.10 were expected."
    assert answer_text(-0.001, 1.42).startswith("Gained 0.00 bits;")
    assert answered(0.0, 0.0) is None


@pytest.mark.parametrize(
    ("expected", "best", "mistake"),
    [(0.6, 1.42, True), (0.8, 1.42, False), (0.05, 0.2, False), (0.0, 0.2, True)],
)
def test_a_question_is_a_mistake_if_it_is_far_worse(
    expected: float, best: float, mistake: bool
) -> None:
    assert asked(expected, best).mistake is mistake


@pytest.mark.parametrize(
    ("probability", "break_even", "correct", "provable", "words", "mistake"),
    [
        (0.42, 0.66, True, False, "0.42; accusing pays from 0.66: premature, although right", True),
        (0.42, 0.66, False, False, "0.42; accusing pays from 0.66: premature, and wrong", True),
        (
            0.7,
            0.66,
            False,
            False,
            "0.70; accusing pays from 0.66: well timed, although wrong",
            False,
        ),
        (0.002, 1.0, False, False, "below 0.01; accusing pays only when certain: premature", True),
        (0.999, 1.0, True, False, "over 0.99; accusing pays only when certain: premature", True),
        (1.0, 1.0, True, True, "with certainty", False),
        (0.0, 1.0, False, True, "although the case was certain", True),
        (0.0, 0.3, False, False, "own view excluded", True),
    ],
)
def test_accusations(
    probability: float, break_even: float, correct: bool, provable: bool, words: str, mistake: bool
) -> None:
    comment = accused(probability, break_even, correct, provable)
    assert words in comment.text
    assert comment.mistake is mistake and not comment.omniscient


def test_what_was_let_pass() -> None:
    first = commented("missed accusation", envelope=QUESTION, turns=1)
    assert first.mistake and first.text.endswith("certain: Miss Scarlett, Rope, Hall.")
    again = commented("missed accusation", envelope=QUESTION, turns=2)
    assert again.text.endswith("Number of such turns so far: 2.")


def test_comments_on_refutations_are_for_omniscient_viewers() -> None:
    only, least = refuted(0.53, 0.53, 1), refuted(0.21, 0.21, 3)
    more, much = refuted(0.31, 0.21, 2), refuted(0.53, 0.21, 2)
    assert only.text == "Gave 0.53 bits to the suggester: there was only one card to show."
    assert least.text.startswith("Gave 0.21 bits to the suggester; none of the 3")
    assert much.text == "Gave 0.53 bits to the suggester; another card gives 0.21."
    assert [each.mistake for each in (only, least, more, much)] == [False, False, False, True]
    assert all(each.omniscient for each in (only, least, more, much))
    assert refuted(-0.001, -0.001, 1).text.startswith("Gave no information: there")
