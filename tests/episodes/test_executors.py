"""Executors: the same results everywhere, one service for all calls, nothing lost with a worker."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

import pytest
from cluedo_server import legal_answer
from scripted_table import quick

from arena.agents.chat import ChatOptions
from arena.core.errors import ArenaError, BudgetSpent
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.episodes.job import (
    Executor,
    GameJob,
    LocalExecutor,
    make_executor,
    play_job,
    run_job,
    whole_episode,
)
from arena.episodes.match import Match, play
from arena.episodes.pool import MAX_LOSSES, ProcessPool
from arena.episodes.record import Episode
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.schedule import ExperimentSetup, play_slot, run_schedule
from arena.llm.backend import Completion, Request
from arena.llm.service import LLMService
from arena.llm.settings import RunLimits
from arena.plugins.catalog import make_game
from backends.scripted import ScriptedBackend, ScriptedReply
from games.kuhn_poker.game import DealHands, KuhnPoker, KuhnPokerState

BOTS = ("bot:detective", "bot:novice", "bot:detective")
SPECS = ("scripted:model", "bot:novice", "bot:detective")
GAME = make_game("cluedo", players=3)
# An error of the model is no outage here, however slow the machine is.
SETTINGS = quick(max_retries=1, patience=60.0, breaker_failures=10_000)
Run = Callable[[ProcessPool], Awaitable[None]]


def reply(request: Request) -> ScriptedReply:
    question = request.messages[-1].content
    if len(question) % 7 == 0:
        return ScriptedReply("I do not know.", cost=0.01)
    if len(question) % 11 == 0:
        return ScriptedReply(error="server_error")
    return ScriptedReply(legal_answer({"messages": [{"content": question}]}), cost=0.01)


def job(seed: int, specs: tuple[str, ...] = BOTS) -> GameJob[Episode]:
    match = Match(GAME, specs, seed, chat=ChatOptions(max_attempts=2), max_turns=30)
    return GameJob(f"game {seed}", match, whole_episode, is_slow_to_measure=True)


async def play_seed(executor: Executor, seed: int, specs: tuple[str, ...] = BOTS) -> Episode:
    return (await run_job(job(seed, specs), executor)).value


def play_here(seed: int) -> Episode:
    """Play a game of bots; a function for workers."""
    return asyncio.run(play_job(job(seed), None)).value


def fail() -> None:
    raise LookupError("no such thing")


def return_a_function() -> Callable[[], None]:
    return lambda: None


def _exhaust_memory() -> NoReturn:
    """Allocate more memory than this process may have: 64 MiB more than now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**26
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    blocks = []
    while True:
        blocks.append(bytearray(2**22))


def exhaust_memory_once(folder: Path, seed: int) -> Episode:
    if (folder / "tried").exists():
        return play_here(seed)
    (folder / "tried").touch()
    _exhaust_memory()


def raise_memory_error() -> None:
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


def with_processes(run: Run, max_cost: float | None = None, workers: int = 1) -> LLMService:
    """Run a test with worker processes, none of which is left at its end."""

    async def go() -> LLMService:
        limits = RunLimits(max_cost=max_cost, max_fallbacks=0)
        llm = LLMService(SETTINGS, limits, notify=lambda _: None)
        async with llm:
            llm.add(SPECS[0], ScriptedBackend(reply))
            async with ProcessPool(workers, llm) as pool:
                await run(pool)
        return llm

    llm = asyncio.run(go())
    assert not multiprocessing.active_children()
    return llm


def timeless(episode: Episode) -> list[object]:
    return [
        (ply.player, str(ply.decision.action), ply.decision.failure, ply.events)
        for ply in episode.plies
    ]


@pytest.fixture
def two_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run end with the second worker that a game loses."""
    monkeypatch.setattr("arena.episodes.pool.MAX_LOSSES", 2)


@pytest.mark.parametrize("specs", [BOTS, SPECS])
def test_games_are_those_of_one_process_and_every_call_is_in_the_ledger(
    specs: tuple[str, ...],
) -> None:
    there: list[Episode] = []

    async def run(pool: ProcessPool) -> None:
        there.extend(await asyncio.gather(*(play_seed(pool, seed, specs) for seed in range(6))))

    away = with_processes(run, workers=2).ledger.total()

    async def here() -> tuple[list[Episode], LLMService]:
        async with LLMService(SETTINGS, notify=lambda _: None) as llm:
            llm.add(SPECS[0], ScriptedBackend(reply))
            async with LocalExecutor(llm) as executor:
                return [await play_seed(executor, seed, specs) for seed in range(6)], llm

    episodes, llm = asyncio.run(here())
    assert [timeless(e) for e in there] == [timeless(e) for e in episodes]
    total = llm.ledger.total()
    assert (away.calls, away.answered, away.decisions, away.fallbacks) == (
        *(total.calls, total.answered, total.decisions, total.fallbacks),
    )
    assert away.failures == total.failures
    if specs == SPECS:
        assert away.failures["server_error"]
        assert any(ply.decision.failure for e in there for ply in e.plies)


class MeetingBackend(ScriptedBackend):
    """Answers as soon as eight games have asked."""

    def __init__(self) -> None:
        super().__init__(reply)
        self._asked, self._all_wait = 0, asyncio.Event()

    async def complete(self, request: Request) -> Completion:
        self._asked += 1
        if self._asked == 8:
            self._all_wait.set()
        await self._all_wait.wait()
        return await super().complete(request)


def test_more_games_with_models_than_workers_wait_together() -> None:
    async def run(pool: ProcessPool) -> None:
        assert pool.llm is not None
        pool.llm.add("scripted:meeting", MeetingBackend())
        specs = ("scripted:meeting", *SPECS[1:])
        async with asyncio.timeout(60):
            await asyncio.gather(*(play_seed(pool, seed, specs) for seed in range(8)))

    with_processes(run)


def test_the_budget_counts_the_games_beside_workers() -> None:
    finished: list[Episode] = []

    async def run(pool: ProcessPool) -> None:
        for seed in range(100):
            finished.append(await play_seed(pool, seed, SPECS))

    with pytest.raises(BudgetSpent, match="one more game may need"):
        with_processes(run, max_cost=1.0)
    assert finished


def test_the_budget_counts_a_game_of_this_process_once() -> None:
    """It waited for itself for ever."""

    async def go() -> Episode:
        async with LLMService(SETTINGS, RunLimits(max_cost=1.0), notify=lambda _: None) as llm:
            llm.add(SPECS[0], ScriptedBackend(reply))
            async with asyncio.timeout(60), LocalExecutor(llm) as executor:
                return await play_seed(executor, 1, SPECS)

    assert asyncio.run(go()).plies


class LostClass:
    """A class that no worker can import."""

    def __reduce__(self) -> tuple[object, ...]:
        return (__import__, ("no_such_module",))

    def __call__(self) -> None:
        """Do nothing."""


def test_errors_of_the_work_are_raised_and_lost_workers_are_replaced(tmp_path: Path) -> None:
    async def run(pool: ProcessPool) -> None:
        with pytest.raises(LookupError, match="no such thing") as caught:
            await pool.compute(fail)
        assert "in fail" in "".join(caught.value.__notes__)
        with pytest.raises(Exception, match=r"pickle"):
            await pool.compute(return_a_function)
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            await pool.compute(LostClass())
        assert await play_seed(pool, 2) and pool.lost == 0, "the worker goes on"
        episode = await pool.compute(partial(exhaust_memory_once, tmp_path, 3))
        assert timeless(episode) == timeless(await asyncio.to_thread(play_here, 3))
        assert pool.lost == 1
        with pytest.raises(ArenaError) as lost:
            # A function for which a worker imports nothing.
            await pool.compute(partial(signal.raise_signal, signal.SIGKILL), "game 7 (seed 3)")
        assert str(lost.value) == (
            "5 workers in turn were lost with game 7 (seed 3) or work beside it, the last one "
            "killed by SIGKILL (out of memory?); finished games are kept: run the command "
            "again (with --resume, except arena train), if memory is short with fewer --workers"
        )
        assert pool.lost == 1 + MAX_LOSSES
        assert await play_seed(pool, 3), "the executor goes on with new workers"

    with_processes(run)


@pytest.mark.usefixtures("two_losses")
def test_a_game_without_memory_ends_the_run_and_the_others_are_kept() -> None:
    setup, slots = ExperimentSetup(Match(HungryPoker())), hungry_slots()
    stored: list[GameResult] = []

    async def run(pool: ProcessPool) -> None:
        playing = run_schedule(slots, lambda s: play_slot(setup, s, pool), stored.append, 1)
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
            await executor.compute(raise_memory_error, "game 3")

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
    async def run(pool: ProcessPool) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await pool.compute(partial(time.sleep, 600))
        assert await play_seed(pool, 4)

    started = time.monotonic()
    with_processes(run, workers=2)
    assert time.monotonic() - started < 60, "a worker that computes is not waited for"


class TornResult:
    """A result during whose pickling the worker writes the head of a message and is killed."""

    def __reduce__(self) -> tuple[object, ...]:
        for pipe in gc.get_objects():
            if isinstance(pipe, Connection):
                os.write(pipe.fileno(), (2**20).to_bytes(4, "big") + b"half")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("the process goes on after SIGKILL")


@pytest.mark.usefixtures("two_losses")
def test_half_a_result_of_a_killed_worker_is_no_result() -> None:
    async def run(pool: ProcessPool) -> None:
        with pytest.raises(ArenaError, match="2 workers in turn were lost with a game"):
            async with asyncio.timeout(60):
                await pool.compute(TornResult, "a game")

    with_processes(run)


def test_workers_end_when_their_parent_is_killed() -> None:
    program = (
        "import asyncio, os, time\n"
        "from arena.episodes.job import make_executor\n"
        "async def go():\n"
        "    async with make_executor('processes', 2) as executor:\n"
        "        print(await executor.compute(os.getpid), flush=True)\n"
        "        time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(go())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _is_running(worker):
        time.sleep(0.05)
    assert not _is_running(worker)


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
