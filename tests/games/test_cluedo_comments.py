"""Comments on games of Cluedo: what they say, what counts as a mistake, and who may read them."""

from __future__ import annotations

import pytest

from arena.core.assessment import Assessment, Comment
from arena.core.json import Json
from games.cluedo.game import Cluedo

GAME = Cluedo(players=3)
QUESTION = ["Miss Scarlett", "Rope", "Hall"]


def said(kind: str, **facts: Json) -> Comment:
    comment = GAME.comment(Assessment(7, 1, kind, facts))
    assert comment is not None
    return comment


def asked(expected: float, best: float, before: float = 5.0) -> Comment:
    facts = {"expected": expected, "best": best, "entropy_before": before}
    return said("suggestion", best_question=QUESTION, **facts)


def accused(probability: float, break_even: float, correct: bool, provable: bool) -> Comment:
    facts = {"probability": probability, "break_even": break_even}
    return said("accusation", correct=correct, provable=provable, **facts)


def refuted(leaked: float, least: float, choices: int) -> Comment:
    return said("refutation", leaked=leaked, least=least, choices=choices)


def test_a_question_beside_the_best_one() -> None:
    assert asked(1.1, 1.42) == Comment(
        "Promised 1.10 bits, the best question (Miss Scarlett, Rope, Hall) 1.42."
    )
    assert asked(1.42, 1.42) == Comment("Promised 1.42 bits; no question promised more.")


def test_what_an_answer_brought() -> None:
    assert said("answer", gained=1.31, expected=1.1).text == (
        "Brought 1.31 bits; 1.10 were to be expected."
    )
    assert said("answer", gained=-0.001, expected=1.42).text.startswith("Brought 0.00 bits;")
    assert GAME.comment(Assessment(7, 1, "answer", {"gained": 0.0, "expected": 0.0})) is None


@pytest.mark.parametrize(
    ("expected", "best", "mistake"),
    [(0.6, 1.42, True), (0.8, 1.42, False), (0.05, 0.2, False), (0.0, 0.2, True)],
)
def test_a_question_is_a_mistake_if_it_is_far_worse(
    expected: float, best: float, mistake: bool
) -> None:
    assert asked(expected, best).mistake is mistake


def test_a_question_in_a_certain_case() -> None:
    comment = asked(0.0, 0.0, before=0.0)
    assert "nothing to learn" in comment.text and not comment.mistake


@pytest.mark.parametrize(
    ("probability", "break_even", "correct", "provable", "words", "mistake"),
    [
        (0.42, 0.66, True, False, "0.42; it pays from 0.66 on: premature, though right", True),
        (0.42, 0.66, False, False, "0.42; it pays from 0.66 on: premature, and wrong", True),
        (0.7, 0.66, False, False, "0.70; it pays from 0.66 on: in good time, though wrong", False),
        (0.002, 1.0, False, False, "below 0.01; only certainty pays here: premature", True),
        (0.999, 1.0, True, False, "over 0.99; only certainty pays here: premature", True),
        (1.0, 1.0, True, True, "with certainty", False),
        (0.0, 1.0, False, True, "although the case was certain", True),
        (0.0, 0.3, False, False, "impossible", True),
    ],
)
def test_accusations(
    probability: float, break_even: float, correct: bool, provable: bool, words: str, mistake: bool
) -> None:
    comment = accused(probability, break_even, correct, provable)
    assert words in comment.text
    assert comment.mistake is mistake and not comment.omniscient


def test_what_was_let_pass() -> None:
    first = said("missed accusation", envelope=QUESTION, turns=1)
    assert first.mistake and first.text.endswith("certain: Miss Scarlett, Rope, Hall.")
    again = said("missed accusation", envelope=QUESTION, turns=2)
    assert again.text.endswith("Turns let pass so far: 2.")
    unused = said("unused certainty", turns=2)
    assert not unused.mistake, "each of these turns has been called a mistake already"
    assert "turns let pass: 2" in unused.text
    assert "over before" in said("unused certainty", turns=0).text


def test_what_a_card_told_is_for_nobody_at_the_table() -> None:
    only, least = refuted(0.53, 0.53, 1), refuted(0.21, 0.21, 3)
    more, much = refuted(0.31, 0.21, 2), refuted(0.53, 0.21, 2)
    assert only.text == "Gave away 0.53 bits: there was only one card to show."
    assert least.text.startswith("Gave away 0.21 bits; none of the 3")
    assert much.text == "Gave away 0.53 bits; another card would have given 0.21."
    assert [each.mistake for each in (only, least, more, much)] == [False, False, False, True]
    assert all(each.omniscient for each in (only, least, more, much))
    assert refuted(-0.001, -0.001, 1).text.startswith("Gave nothing away: there")


def test_bits_are_never_negative() -> None:
    assert refuted(0.31, -0.09, 2).text == (
        "Gave away 0.31 bits; another card would have given nothing away, "
        "and left 0.09 bits more open."
    )
    assert refuted(0.31, -0.004, 2).text.endswith("another card would have given nothing away.")
    lost = refuted(-0.12, -0.12, 2).text
    assert lost.startswith("Gave nothing away, and left 0.12 bits more open; none of the 2")
    answered = said("answer", gained=-0.2, expected=1.1).text
    assert answered.startswith("Brought nothing and left 0.20 bits more open; 1.10 were")
    assert "-" not in answered


@pytest.mark.parametrize("kind", ["turn", "knowledge", "beliefs", "something new"])
def test_kinds_without_words(kind: str) -> None:
    assert GAME.comment(Assessment(7, 1, kind)) is None
