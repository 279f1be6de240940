"""A budget buys whole games: what is started can be finished."""

from __future__ import annotations

import asyncio
import random

import pytest
from scripted_table import ASK, SPEC, Table, table

from arena.core.errors import BudgetSpent
from backends.scripted import ScriptedReply

CALL = ScriptedReply("yes", prompt_tokens=10, completion_tokens=40, cost=0.003, seconds=0.001)


async def play_games(play: Table, lengths: list[int]) -> tuple[list[int], list[int]]:
    """Play games of so many calls side by side; return the calls of finished and of other games."""
    made = [0] * len(lengths)

    async def one(number: int) -> None:
        async with play.llm.game([SPEC, "bot:novice"]):
            for _ in range(lengths[number]):
                await play.llm.complete(SPEC, ASK)
                made[number] += 1

    tasks = [asyncio.ensure_future(one(number)) for number in range(len(lengths))]
    _, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in running:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    finished = [count for count, result in zip(made, results, strict=True) if result is None]
    return finished, [n for n, result in zip(made, results, strict=True) if result and n]


@pytest.mark.parametrize("limits", [{"max_cost": 0.6}, {"token_limit": 10_000}])
def test_games_are_finished_rather_than_started(limits: dict[str, float]) -> None:
    rng = random.Random(3)
    lengths = [rng.randint(12, 24) for _ in range(40)]
    play = table(lambda _: CALL, concurrency=50, **limits)  # type: ignore[arg-type]
    finished, cut = asyncio.run(play_games(play, lengths))
    assert not cut
    # 200 calls are paid for: 11 games of 18 on average, and a cautious rest.
    assert 150 <= sum(finished) <= 200 and len(finished) >= 8


def test_the_first_game_of_a_model_runs_alone_and_an_ample_budget_fills_the_table() -> None:
    most: list[int] = []

    def reply(_: object) -> ScriptedReply:
        most.append(len(play.llm._budget._running))
        return CALL

    play = table(reply, max_cost=100, concurrency=50)
    finished, _ = asyncio.run(play_games(play, [5] * 30))
    assert len(finished) == 30
    assert most[:5] == [1] * 5 and max(most) > 10


def test_money_that_does_not_suffice_for_all_finishes_the_oldest_game() -> None:
    """After four short games several much longer ones run side by side, with money for one."""
    play = table(lambda _: CALL, max_cost=0.285, concurrency=50)
    finished, cut = asyncio.run(play_games(play, [5, 5, 5, 5, 40, 40, 40, 40]))
    assert finished == [5, 5, 5, 5, 40] and len(cut) >= 2
    assert play.tally.cost <= 0.285 + 0.003


def test_a_game_that_cannot_be_covered_is_refused_before_it_starts() -> None:
    play = table(lambda _: CALL, max_cost=0.05)

    async def run() -> str:
        async with play.llm.game([SPEC]):
            for _ in range(10):
                await play.ask()
        with pytest.raises(BudgetSpent) as refused:
            async with play.llm.game([SPEC]):
                raise AssertionError("it was started")
        return str(refused.value)

    # After one game, the next one is taken to need four times as much.
    assert asyncio.run(run()) == (
        "the budget is spent: $0.030000 so far, and one more game may need $0.120000, more than "
        "--max-cost 0.05 leaves; finished games are kept"
    )


def test_games_of_bots_need_no_money() -> None:
    play = table(lambda _: CALL, max_cost=0)

    async def run() -> None:
        async with play.llm.game(["bot:novice", "bot:random"]):
            pass

    asyncio.run(run())
