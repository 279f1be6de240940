"""The style of numbers in all texts for people."""

from __future__ import annotations

import pytest

from arena.core.text import bits_text, decimal, percentage
from arena.evaluation.document import percent
from arena.evaluation.records import Interval


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (0.0001, "<0.1 %"),
        (0.004, "0.4 %"),
        (0.0099, "1.0 %"),
        (0.00996, "1 %"),
        (0.012, "1 %"),
        (0.544, "54 %"),
        (0.994, "99 %"),
        (0.999, ">99 %"),
        (1.0, "100 %"),
        (-0.25, "−25 %"),
    ],
)
def test_percentages(share: float | None, text: str) -> None:
    assert percentage(share) == text


@pytest.mark.parametrize("games", [10, 100_000])
def test_intervals_have_the_same_decimals_for_any_number_of_games(games: int) -> None:
    assert percent(Interval(value=0.544, low=0.48, high=0.6, n=games)) == "54 % [48, 60]"
    small = Interval(value=0.004, low=-0.002, high=0.012, n=games)
    assert percent(small, signed=True) == "+0.4 points [−0.2, +1.2]"


def test_other_numbers() -> None:
    assert (decimal(-0.001), decimal(-1.5, 1), decimal(2.0, 0, signed=True)) == (
        *("0.00", "−1.5", "+2"),
    )
    assert (bits_text(7.9), bits_text(-0.25), bits_text(None)) == ("7.90 bits", "−0.25 bits", "–")
