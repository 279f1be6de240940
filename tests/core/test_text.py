"""Sanitizing of external text, and counts with nouns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.core.text import (
    duration_in_words,
    encodable,
    pluralize,
    printable,
    shorten,
    spreadsheet_row,
)


@given(st.text(st.characters(codec=None)), st.integers(5, 300))
def test_external_text_is_made_safe(text: str, most: int) -> None:
    assert encodable(text).encode("utf-8").decode() == encodable(text)
    assert printable(text).isprintable() and len(printable(text)) == len(text)
    short = shorten(text, most)
    assert short.isprintable() and len(short) == min(len(text), most)


def test_a_spreadsheet_computes_no_text() -> None:
    formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1+1"]
    assert spreadsheet_row(formulas) == [f"'{text}" for text in formulas]
    plain = ["bot:a", "1-2", "", "'=1", -1.5, None, 3]
    assert spreadsheet_row(plain) == plain


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
    [
        (1, "game", "1 game"),
        (2, "game", "2 games"),
        (0, "ply", "0 plies"),
        (3, "more file", "3 more files"),
        (2, "play", "2 plays"),
    ],
)
def test_pluralize(number: int, noun: str, expected: str) -> None:
    assert pluralize(number, noun) == expected


def test_durations() -> None:
    seconds = (1.2, 90, 2400, 9000)
    words = ["1 second", "90 seconds", "40 minutes", "2.5 hours"]
    assert [duration_in_words(each) for each in seconds] == words
