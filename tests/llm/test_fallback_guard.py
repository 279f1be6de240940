"""The guard against runs of fallback moves: it stops at its limits, and not before."""

from __future__ import annotations

import itertools

import pytest

from arena.core.errors import StopPlaying
from arena.llm.ledger import FallbackGuard, Tally


def decisions_before_the_stop(pattern: str, limit: int, most: int = 400) -> int | None:
    """Repeat a pattern, F for a fallback move; the number of the decision that stops the run."""
    guard = FallbackGuard("a:model", Tally())
    for number, decision in enumerate(itertools.islice(itertools.cycle(pattern), most), start=1):
        try:
            guard.count("no answer" if decision == "F" else None, limit)
        except StopPlaying:
            return number
    return None


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_as_many_in_a_row_as_the_limit_stop_the_run(limit: int) -> None:
    assert decisions_before_the_stop("F", limit) == limit
    # After enough moves of its own, only those in a row count, at any time.
    assert decisions_before_the_stop("." * 200 + "F" * limit, limit) == 200 + limit
    assert decisions_before_the_stop("." * 200 + "F" * (limit - 1), limit) is None


def test_more_than_half_of_the_first_decisions_stop_the_run() -> None:
    """At a limit of 10: the 21st of the first 40, and no later one."""
    assert decisions_before_the_stop("FF.", 10) == 31
    assert decisions_before_the_stop("F" * 9 + "." + "F" * 9 + "." + "FF.", 10) == 24
    assert decisions_before_the_stop("F.", 10) is None
    assert decisions_before_the_stop("." * 21 + "FFFF." * 9, 10, most=66) is None


def test_without_a_limit_nothing_stops_the_run() -> None:
    assert decisions_before_the_stop("F", 0) is None


def test_the_message_counts_both_and_names_the_last_reason() -> None:
    tally = Tally()
    guard = FallbackGuard("a:model", tally)
    guard.count(None, 2)
    guard.count("empty", 2)
    with pytest.raises(StopPlaying, match=r"^a:model: 2 of 3 decisions .*last one: truncated"):
        guard.count("truncated", 2)
    assert (tally.decisions, tally.fallbacks) == (3, 2)
