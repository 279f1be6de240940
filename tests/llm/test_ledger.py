"""The ledger adds up, whatever happens."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scripted_table import ASK, check_sums, count_errors, table

from arena.cli.terminal import ledger_grid, print_grids, write_ledger
from arena.core.errors import BackendError, FailureCause, StopPlaying
from arena.llm.backend import Price, Request
from arena.llm.ledger import FallbackGuard, Ledger, Tally, percentile
from backends.scripted import ScriptedBackend, ScriptedReply

PRICE = Price(1e-6, 1e-5)


@hypothesis_settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), failing=st.floats(0, 0.9))
def test_the_ledger_adds_up_against_what_the_backend_counted(seed: int, failing: float) -> None:
    rng = random.Random(seed)
    causes = [cause for cause in get_args(FailureCause) if cause != "authentication"]
    given: list[ScriptedReply] = []

    def reply(_: Request) -> ScriptedReply:
        if rng.random() < failing:
            given.append(ScriptedReply(error=rng.choice(causes)))
        else:
            tokens = rng.randrange(50)
            given.append(ScriptedReply("y", prompt_tokens=tokens, completion_tokens=3, cost=0.25))
        return given[-1]

    play = table(reply, max_retries=rng.randrange(4), backoff=0, breaker_failures=4, patience=0.05)
    results = asyncio.run(play.ask_many(30))
    tally, answered = play.tally, [r for r in given if r.error is None]
    check_sums(tally)
    assert tally.calls == 30
    assert tally.attempts == len(given) == len(play.backend.requests)
    assert tally.answered == len(answered) == results.count("y")
    assert tally.prompt_tokens == sum(r.prompt_tokens or 0 for r in answered)
    assert tally.cost == 0.25 * len(answered)
    for cause in causes:
        assert tally.failed_attempts[cause] == sum(r.error == cause for r in given)
        raised = (r for r in results if isinstance(r, BackendError))
        assert tally.failures[cause] == sum(error.cause == cause for error in raised)
    assert tally.failures["stopped"] == count_errors(results, StopPlaying)


def test_cancelled_calls_release_all_they_held_and_are_counted() -> None:
    answers = iter([ScriptedReply(seconds=60)] * 2)
    play = table(lambda _: next(answers, "yes"), concurrency=2, max_cost=0.002, price=PRICE)

    async def run() -> list[str | BaseException]:
        calls = [asyncio.create_task(play.ask()) for _ in range(5)]
        await asyncio.sleep(0.02)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        assert all(call.cancelled() for call in calls)
        return await play.ask_many(2)

    assert asyncio.run(run()) == ["yes", "yes"]
    assert play.tally.failed_attempts == {"cancelled": 2}
    assert play.tally.failures == {"cancelled": 5}
    assert play.tally.not_sent == 3
    check_sums(play.tally)


def test_a_fault_of_a_backends_program_comes_out_and_is_counted() -> None:
    def broken(_: Request) -> str:
        raise KeyError("choices")

    play = table(broken)
    with pytest.raises(KeyError):
        asyncio.run(play.ask())
    assert play.tally.failures == play.tally.failed_attempts == {"crash": 1}
    check_sums(play.tally)


def test_the_ledger_is_written_and_shown(tmp_path: Path) -> None:

    play = table(["a", ScriptedReply(error="rate_limit"), ScriptedReply("b", cost=0.5)])
    play.llm.add("scripted:2", ScriptedBackend(["c"]))

    async def run() -> None:
        await play.ask()
        await play.ask()
        await play.llm.complete("scripted:2", ASK)

    asyncio.run(run())
    path = tmp_path / "runs" / "ledger.json"
    write_ledger(play.llm.ledger, path)
    assert [p.name for p in path.parent.iterdir()] == ["ledger.json"]
    written = json.loads(path.read_text())
    assert written["total"]["calls"] == 3
    assert written["backends"]["scripted"]["retries"] == {"rate_limit": 1}
    assert written["backends"]["scripted"]["unknown_cost"] == 1
    assert written["backends"]["scripted:2"]["latency_p50"] > 0
    grid = ledger_grid(play.llm.ledger)
    assert [row[0] for row in grid.rows] == ["scripted", "scripted:2", "total"]
    assert list(grid.headings[:3]) == ["model", "calls", "retries"]  # Nothing cached or failed.
    assert grid.rows[0][1:3] == ["2", "1"] and "$0.5000" in grid.rows[2]
    assert grid.title == "Calls of models; retries: 1 rate_limit"


def test_numbers_of_the_ledger_stay_whole_in_a_narrow_terminal() -> None:
    from rich.console import Console

    ledger = Ledger()
    tally = ledger.tally("embedded:runs/train/cluedo-demo/checkpoints/0008")
    tally.calls, tally.cached_tokens, tally.cost, tally.seconds = 12345, 3, 12.5, [0.1, 0.2]
    tally.prompt_tokens, tally.completion_tokens = 1234567, 33445
    tally.failures = Counter(rate_limit=4, bad_response=2)
    tally.retries = Counter(timeout=3, rate_limit=12)
    console = Console(width=80, record=True, file=io.StringIO())
    print_grids([ledger_grid(ledger)], console)
    shown = " ".join(console.export_text().split())
    for said in ("12,345", "1,234,567", "33,445", "$12.5000", "0.10 s", "0.20 s"):
        assert said in shown
    assert "failed: 4 rate_limit, 2 bad_response; retries: 12 rate_limit, 3 timeout" in shown
    assert "…" not in shown


def test_the_ledger_names_the_percentiles_of_the_seconds() -> None:
    tally = Ledger().tally("a:model")
    tally.seconds = [float(second) for second in range(1, 101)]
    shown = tally.to_json()
    assert (shown["latency_p50"], shown["latency_p95"]) == (50.0, 95.0)


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert [percentile(values, p) for p in (0, 50, 95, 100)] == [1, 50, 95, 100]
    assert percentile([3.0], 95) == 3.0
    assert percentile([], 50) is None


def decisions_before_the_stop(pattern: str, limit: int, most: int = 400) -> int | None:
    """Repeat a pattern, F for a fallback move; the number of the decision that stops the run."""
    guard = FallbackGuard("a:model", Tally(), limit)
    for number, decision in enumerate(itertools.islice(itertools.cycle(pattern), most), start=1):
        try:
            guard.count("no answer" if decision == "F" else None)
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
    guard = FallbackGuard("a:model", tally, 2)
    guard.count(None)
    guard.count("empty")
    with pytest.raises(StopPlaying, match=r"^a:model: 2 of 3 decisions .*last one: truncated"):
        guard.count("truncated")
    assert (tally.decisions, tally.fallbacks) == (3, 2)
