"""Comments on games of Cluedo: the text, the mistakes, and the viewers that may read them."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from arena.core.analysis import Assessment, Comment
from games.cluedo.game import Cluedo

GAME = Cluedo(players=3)
QUESTION: list[JsonValue] = ["Miss Scarlett", "Rope", "Hall"]
PAYS = "accusing pays"
FACTS = {
    "suggestion": ("expected", "best", "entropy_before"),
    "answer": ("gained", "expected", "entropy_before", "entropy_after"),
    "accusation": ("probability", "break_even", "correct", "provable"),
    "missed accusation": ("envelope", "turns"),
    "refutation": ("leaked", "least", "choices"),
}


def commented(kind: str, *facts: JsonValue) -> Comment | None:
    named = dict(zip(FACTS[kind], facts, strict=True))
    if kind == "suggestion":
        named["best_question"] = QUESTION
    elif kind == "accusation":
        named["highest"] = 1.0
    return GAME.analysis.comment(Assessment(7, 1, kind, named))


@pytest.mark.parametrize(
    ("kind", "facts", "words", "mistake"),
    [
        ("suggestion", (1.42, 1.42, 5.0), "Expected 1.42 bits; no question was better.", False),
        ("suggestion", (1.1, 1.42, 5.0), "(Miss Scarlett, Rope, Hall): 1.42 bits.", False),
        # A mistake is far worse than the best, by share and by bits.
        ("suggestion", (0.6, 1.42, 5.0), "Expected 0.60 bits; the best question", True),
        ("suggestion", (0.8, 1.42, 5.0), "Expected 0.80 bits", False),
        ("suggestion", (0.05, 0.2, 5.0), "Expected 0.05 bits", False),
        ("suggestion", (0.0, 0.2, 5.0), "Expected 0.00 bits", True),
        ("answer", (1.31, 1.1, 5.0, 3.69), "Gained 1.31 bits; 1.10 were expected.", False),
        ("answer", (-0.001, 1.42, 5.0, 5.001), "Gained 0.00 bits;", False),
        ("accusation", (0.42, 0.66, True, False), f"0.42; {PAYS} from 0.66: premature, alth", True),
        ("accusation", (0.42, 0.66, False, False), "from 0.66: premature, and wrong", True),
        ("accusation", (0.7, 0.66, False, False), "from 0.66: well timed, although wrong", False),
        ("accusation", (0.002, 1.0, False, False), "below 0.01; accusing pays only when", True),
        ("accusation", (0.999, 1.0, True, False), "over 0.99; accusing pays only when", True),
        ("accusation", (1.0, 1.0, True, True), "with certainty", False),
        ("accusation", (0.0, 1.0, False, True), "although the case was certain", True),
        ("accusation", (0.0, 0.3, False, False), "own view excluded", True),
        ("missed accusation", (QUESTION, 1), "certain: Miss Scarlett, Rope, Hall.", True),
        ("missed accusation", (QUESTION, 2), "Number of such turns so far: 2.", True),
        ("refutation", (0.21, 0.21, 3), "0.21 bits to the suggester; none of the 3", False),
        ("refutation", (0.31, 0.21, 2), "another card gives 0.21.", False),
        ("refutation", (0.53, 0.21, 2), "0.53 bits to the suggester; another card gives", True),
        ("refutation", (-0.001, -0.001, 2), "Gave no information; none of", False),
    ],
)
def test_comments(kind: str, facts: tuple[JsonValue, ...], words: str, mistake: bool) -> None:
    comment = commented(kind, *facts)
    assert comment is not None and words in comment.text and comment.mistake is mistake
    # The information of a card depends on what the suggester knows.
    assert comment.omniscient == (kind == "refutation")


def test_an_answer_without_news_has_no_comment() -> None:
    assert commented("answer", 0.0, 0.0, 5.0, 5.0) is None
