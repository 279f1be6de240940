"""Group commit: few transactions, and no result that is reported before it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from arena.core.errors import ArenaError
from arena.evaluation.evaluator import run_schedule
from arena.evaluation.records import GameResult, SeatResult, Slot
from arena.evaluation.store.group_commit import GroupCommit

SPECS = ("bot:random",)


def result_of(slot: Slot) -> GameResult:
    return GameResult(slot, "terminated", "over", 1, 1, 0.0, (SeatResult(SPECS[0], 1.0, True),))


def results(number: int) -> list[GameResult]:
    return [result_of(Slot(n, n, SPECS)) for n in range(number)]


def test_results_that_come_together_are_one_transaction() -> None:
    groups: list[list[int]] = []

    def store(group: Sequence[GameResult]) -> None:
        groups.append([result.slot.number for result in group])

    async def go() -> None:
        commits = GroupCommit(store)
        first, *others = results(100)
        await commits.add(first)
        assert groups == [[0]], "a result that comes alone is stored at once"
        await asyncio.gather(*map(commits.add, others))

    asyncio.run(go())
    assert groups == [[0], list(range(1, 100))]


def test_a_result_that_cannot_be_stored_is_an_error_of_each_of_its_group() -> None:
    stored: list[GameResult] = []

    def store(group: Sequence[GameResult]) -> None:
        if not stored:
            stored.extend(group)
            raise ArenaError("the disk is full")
        stored.extend(group)

    async def go() -> None:
        commits = GroupCommit(store)
        adding = (commits.add(result) for result in results(3))
        failures = await asyncio.gather(*adding, return_exceptions=True)
        assert [str(failure) for failure in failures] == ["the disk is full"] * 3
        await commits.add(results(4)[3])

    asyncio.run(go())
    assert [result.slot.number for result in stored] == [0, 1, 2, 3]


def test_a_result_is_stored_before_it_is_yielded() -> None:
    stored: set[int] = set()

    async def play_one(slot: Slot) -> GameResult:
        return result_of(slot)

    async def go() -> None:
        slots = [Slot(n, n, SPECS) for n in range(200)]
        store = lambda group: stored.update(r.slot.number for r in group)  # noqa: E731
        async for result in run_schedule(slots, play_one, store, 8):
            assert result.slot.number in stored

    asyncio.run(go())
    assert stored == set(range(200))


@pytest.mark.parametrize("stop", ["closed", "failed"])
def test_a_run_that_stops_stores_the_games_that_are_finished(stop: str) -> None:
    """Games 1 to 3 wait for the next transaction when the run stops."""
    stored: list[int] = []
    finished: list[int] = []

    async def play_one(slot: Slot) -> GameResult:
        if slot.number == 4:
            # The first game was stored just before, so the others wait for their turn.
            await asyncio.sleep(0.01)
            while len(finished) < 4:
                await asyncio.sleep(0)
            if stop == "failed":
                raise ArenaError("the provider is down")
            await asyncio.sleep(60)
        elif slot.number:
            await asyncio.sleep(0.001)
        finished.append(slot.number)
        return result_of(slot)

    async def go() -> None:
        slots = [Slot(n, n, SPECS) for n in range(5)]
        store = lambda group: stored.extend(r.slot.number for r in group)  # noqa: E731
        async with aclosing(run_schedule(slots, play_one, store, 5)) as playing:
            async for result in playing:
                if stop == "closed" and result.slot.number == 0:
                    while len(finished) < 4:
                        await asyncio.sleep(0)
                    return

    if stop == "failed":
        with pytest.raises(ArenaError, match="the provider is down"):
            asyncio.run(go())
    else:
        asyncio.run(go())
    assert sorted(stored) == sorted(finished) == [0, 1, 2, 3]
