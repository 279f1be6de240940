"""Executors: the same results everywhere, one service for all calls, nothing lost with a worker."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import resource
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from cluedo_server import legal_answer
from scripted_table import quick

from arena.agents.chat import ChatOptions
from arena.core.errors import (
    ArenaError,
    BackendError,
    BudgetSpent,
    ContextOverflow,
    StopPlaying,
    UsageError,
)
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.episodes.executors import LocalExecutor, make_executor
from arena.episodes.executors.pool import MAX_LOSSES, WorkerPool
from arena.episodes.executors.worker import ProcessChannel
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.schedule import ExperimentSetup, play_slot, run_schedule
from arena.llm.backend import ModelService, Request
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend, ScriptedReply
from games.kuhn_poker.game import DealHands, KuhnPoker, KuhnPokerState

SPECS = ("scripted:model", "bot:novice", "bot:detective")
GAME = make_game("cluedo", players=3)
# An error of the model is no outage here, however slow the machine is.
SETTINGS = quick(max_retries=1, patience=60.0, breaker_failures=10_000)
Run = Callable[[WorkerPool, LLMService], Awaitable[None]]


def reply(request: Request) -> ScriptedReply:
    question = request.messages[-1].content
    if len(question) % 7 == 0:
        return ScriptedReply("I do not know.", cost=0.01)
    if len(question) % 11 == 0:
        return ScriptedReply(error="server_error")
    return ScriptedReply(legal_answer({"messages": [{"content": question}]}), cost=0.01)


def match(seed: int) -> Match:
    return Match(GAME, SPECS, seed, chat=ChatOptions(max_attempts=2), max_turns=30)


async def play_seed(seed: int, llm: ModelService | None) -> Episode:
    return await play(match(seed), llm=llm)


async def ask_for(spec: str, llm: ModelService | None) -> str:
    assert llm is not None
    return (await llm.complete(spec, Request(()))).text if llm.traits(spec) else ""


async def fail(llm: ModelService | None) -> None:
    raise LookupError(f"no such thing in {type(llm).__name__}")


async def return_a_function(llm: ModelService | None) -> Callable[[], None]:
    return lambda: None


async def be_killed(llm: ModelService | None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def wait_for_ever(llm: ModelService | None) -> None:
    await asyncio.Event().wait()


async def exhaust_memory(llm: ModelService | None) -> None:
    _exhaust_memory()


def _exhaust_memory() -> NoReturn:
    """Allocate more memory than this process may have: 64 MiB more than now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**26
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    blocks = []
    while True:
        blocks.append(bytearray(2**22))


async def exhaust_memory_once(folder: Path, seed: int, llm: ModelService | None) -> Episode:
    if (folder / "tried").exists():
        return await play_seed(seed, llm)
    (folder / "tried").touch()
    await exhaust_memory(llm)
    raise AssertionError("there was enough memory")


async def raise_memory_error(llm: ModelService | None) -> None:
    raise MemoryError


class HungryPoker(KuhnPoker):
    """Kuhn poker that exhausts the memory of its process if King and Queen are dealt."""

    def initial_state(self) -> KuhnPokerState:
        return HungryState(self)


class HungryState(KuhnPokerState):
    def _deal(self, deal: DealHands) -> None:
        if deal.cards == ("King", "Queen"):
            _exhaust_memory()
        super()._deal(deal)


def hungry_slots() -> list[Slot]:
    """Return eight games; only that of number 3 needs more memory than there is."""
    poker, specs = KuhnPoker(), ("bot:random", "bot:random")
    hungry: list[int] = []
    modest: list[int] = []
    for seed in range(100):
        episode = asyncio.run(play(Match(poker, specs, seed)))
        is_hungry = episode.plies[0].decision.action == DealHands(("King", "Queen"))
        (hungry if is_hungry else modest).append(seed)
    seeds = [*modest[:3], hungry[0], *modest[3:7]]
    return [Slot(number, seed, specs) for number, seed in enumerate(seeds)]


def with_processes(
    run: Run,
    answer: Callable[[Request], ScriptedReply] = reply,
    max_cost: float | None = None,
    max_fallbacks: int = 0,
    workers: int = 1,
) -> LLMService:
    """Run a test with worker processes, none of which is left at its end."""

    async def go() -> LLMService:
        llm = LLMService(
            SETTINGS, max_cost=max_cost, max_fallbacks=max_fallbacks, notify=lambda _: None
        )
        async with llm:
            llm.add(SPECS[0], ScriptedBackend(answer))
            async with WorkerPool(ProcessChannel.start, workers, llm) as pool:
                await run(pool, llm)
        return llm

    llm = asyncio.run(go())
    assert not multiprocessing.active_children()
    return llm


def timeless(episode: Episode) -> list[object]:
    return [
        (ply.player, str(ply.decision.action), ply.decision.failure, ply.events)
        for ply in episode.plies
    ]


def test_games_are_those_of_one_process_and_every_call_is_in_the_ledger() -> None:
    there: list[Episode] = []

    async def run(pool: WorkerPool, llm: LLMService) -> None:
        playing = (pool.run(partial(play_seed, seed), SPECS) for seed in range(6))
        there.extend(await asyncio.gather(*playing))

    away = with_processes(run, workers=2).ledger.total()

    async def here() -> tuple[list[Episode], LLMService]:
        async with LLMService(SETTINGS, notify=lambda _: None) as llm:
            llm.add(SPECS[0], ScriptedBackend(reply))
            return [await play_seed(seed, llm) for seed in range(6)], llm

    episodes, llm = asyncio.run(here())
    assert [timeless(e) for e in there] == [timeless(e) for e in episodes]
    assert any(ply.decision.failure for e in there for ply in e.plies)
    total = llm.ledger.total()
    assert (away.calls, away.answered, away.decisions, away.fallbacks) == (
        *(total.calls, total.answered, total.decisions, total.fallbacks),
    )
    assert away.failures == total.failures and away.failures["server_error"]


def test_the_budget_counts_the_games_of_the_workers() -> None:
    finished: list[Episode] = []

    async def run(pool: WorkerPool, llm: LLMService) -> None:
        for seed in range(100):
            finished.append(await pool.run(partial(play_seed, seed), SPECS))

    with pytest.raises(BudgetSpent, match="one more game may need"):
        with_processes(run, max_cost=1.0)
    assert finished


def test_the_budget_counts_a_game_of_this_process_once() -> None:
    """It waited for itself for ever."""

    async def go() -> Episode:
        async with LLMService(SETTINGS, max_cost=1.0, notify=lambda _: None) as llm:
            llm.add(SPECS[0], ScriptedBackend(reply))
            async with asyncio.timeout(60), LocalExecutor(llm) as executor:
                return await executor.run(partial(play_seed, 1), SPECS)

    assert asyncio.run(go()).plies


def test_a_model_that_does_not_play_ends_the_run() -> None:
    async def run(pool: WorkerPool, llm: LLMService) -> None:
        await pool.run(partial(play_seed, 1), SPECS)

    with pytest.raises(StopPlaying, match="3 of 3 decisions were fallback moves"):
        with_processes(run, lambda _: ScriptedReply("I do not know."), max_fallbacks=3)


def test_a_fault_of_the_game_is_raised_with_its_place() -> None:
    async def run(pool: WorkerPool, llm: LLMService) -> None:
        with pytest.raises(LookupError, match="no such thing in RemoteService") as caught:
            await pool.run(fail, SPECS)
        assert "in fail" in "".join(caught.value.__notes__)
        with pytest.raises(UsageError, match="openai:x is not one of the models of this game"):
            await pool.run(partial(ask_for, "openai:x"), SPECS)
        with pytest.raises(Exception, match=r"pickle"):
            await pool.run(return_a_function, SPECS)
        # The worker goes on.
        assert await pool.run(partial(play_seed, 2), SPECS)

    with_processes(run)


def test_a_game_that_kills_every_worker_is_a_clear_error() -> None:
    async def run(pool: WorkerPool, llm: LLMService) -> None:
        with pytest.raises(ArenaError) as lost:
            await pool.run(be_killed, SPECS, "game 7 (seed 3)")
        assert str(lost.value) == (
            "5 workers in turn were lost with game 7 (seed 3) or work beside it, the last one "
            "killed by SIGKILL (out of memory?); finished games are kept: continue with --resume, "
            "if memory is short with fewer --workers"
        )
        assert (pool.lost, pool.repeated) == (MAX_LOSSES, MAX_LOSSES - 1)
        # The executor goes on with new workers.
        assert await pool.run(partial(play_seed, 3), SPECS)

    with_processes(run, workers=2)


def test_the_games_of_a_worker_without_memory_are_played_again(tmp_path: Path) -> None:
    async def run(pool: WorkerPool, llm: LLMService) -> None:
        work = partial(exhaust_memory_once, tmp_path, 3)
        assert timeless(await pool.run(work, SPECS)) == timeless(await play_seed(3, llm))
        assert (pool.lost, pool.repeated) == (1, 1)

    with_processes(run)


def test_a_game_without_memory_ends_the_run_and_the_others_are_kept() -> None:
    setup, slots = ExperimentSetup(Match(HungryPoker())), hungry_slots()
    stored: list[GameResult] = []

    async def run(pool: WorkerPool, llm: LLMService) -> None:
        playing = run_schedule(slots, lambda s: play_slot(setup, s, pool), stored.extend, 1)
        name = rf"game 3 \(seed {slots[3].seed}\)"
        with pytest.raises(
            ArenaError, match=f"lost with {name} or work beside it, the last one out"
        ):
            async for _ in playing:
                pass

    with_processes(run)
    assert {0, 1, 2} <= {result.slot.number for result in stored} < set(range(8))


def test_memory_of_this_process_that_is_used_up_is_one_line() -> None:
    async def go() -> None:
        async with make_executor("local") as executor:
            await executor.run(raise_memory_error, (), "game 3")

    with pytest.raises(ArenaError, match="out of memory in game 3; finished games are kept"):
        asyncio.run(go())


def test_a_player_without_memory_makes_no_fallback_move() -> None:
    class Hungry:
        async def act(self, observation: Observation) -> Decision:
            raise MemoryError

    match = Match(make_game("kuhn_poker"), ("bot:random",) * 2, 1)
    with pytest.raises(MemoryError):
        asyncio.run(play(match, [Hungry(), Hungry()]))


def test_a_cancelled_game_leaves_nothing_behind() -> None:
    async def run(pool: WorkerPool, llm: LLMService) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await pool.run(wait_for_ever, SPECS)
        assert await pool.run(partial(play_seed, 4), SPECS)

    with_processes(run)


def test_errors_of_calls_survive_pickling() -> None:
    error = BackendError("it is busy", "rate_limit", retryable=True, retry_after=3.0)
    for kept in (error, ContextOverflow("too long")):
        twin = pickle.loads(pickle.dumps(kept))
        assert (type(twin), str(twin), vars(twin)) == (type(kept), str(kept), vars(kept))


class LostClass:
    """A class that no worker can import."""

    def __reduce__(self) -> tuple[object, ...]:
        return (__import__, ("no_such_module",))

    async def __call__(self, llm: ModelService | None) -> None:
        """Do nothing."""


def test_work_that_a_worker_cannot_import_is_an_error_of_the_work() -> None:
    async def run(pool: WorkerPool, llm: LLMService) -> None:
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            await pool.run(LostClass(), SPECS)
        assert pool.lost == 0

    with_processes(run)
