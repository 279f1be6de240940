"""Games in worker processes: the same games, and one service for all of their calls."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from cluedo_server import legal_answer
from scripted_table import quick

from arena.agents.prompt import ChatOptions
from arena.core.errors import (
    ArenaError,
    BackendError,
    BudgetSpent,
    ContextOverflow,
    StopPlaying,
    UsageError,
)
from arena.episodes.game_processes import GameProcesses
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.episodes.runner import play
from arena.llm.backend import ModelService, Request
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend, ScriptedReply

SPECS = ("scripted:model", "bot:novice", "bot:detective")
GAME = make_game("cluedo", players=3)
# An error of the model is no outage here, however slow the machine is.
SETTINGS = quick(max_retries=1, patience=60.0, breaker_failures=10_000)
Run = Callable[[GameProcesses, LLMService], Awaitable[None]]


def reply(request: Request) -> ScriptedReply:
    question = request.messages[-1].content
    if len(question) % 7 == 0:
        return ScriptedReply("I do not know.", cost=0.01)
    if len(question) % 11 == 0:
        return ScriptedReply(error="server_error")
    return ScriptedReply(legal_answer({"messages": [{"content": question}]}), cost=0.01)


def match(seed: int) -> Match:
    return Match(GAME, SPECS, seed, chat=ChatOptions(max_attempts=2), max_turns=30)


async def play_seed(seed: int, llm: ModelService) -> Episode:
    return await play(match(seed), llm=llm)


async def ask_for(spec: str, llm: ModelService) -> str:
    return (await llm.complete(spec, Request(()))).text if llm.traits(spec) else ""


async def fail(llm: ModelService) -> None:
    raise LookupError(f"no such thing in {type(llm).__name__}")


async def return_a_function(llm: ModelService) -> Callable[[], None]:
    return lambda: None


async def be_killed(llm: ModelService) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def wait_for_ever(llm: ModelService) -> None:
    await asyncio.Event().wait()


def with_processes(
    run: Run,
    answer: Callable[[Request], ScriptedReply] = reply,
    max_cost: float | None = None,
    max_fallbacks: int = 0,
) -> LLMService:
    """Run a test with two worker processes, none of which is left at its end."""

    async def go() -> LLMService:
        llm = LLMService(
            SETTINGS, max_cost=max_cost, max_fallbacks=max_fallbacks, say=lambda _: None
        )
        async with llm:
            llm.add(SPECS[0], ScriptedBackend(answer))
            async with GameProcesses(llm, 2) as processes:
                await run(processes, llm)
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

    async def run(processes: GameProcesses, llm: LLMService) -> None:
        playing = (processes.play(partial(play_seed, seed), SPECS) for seed in range(6))
        there.extend(await asyncio.gather(*playing))

    away = with_processes(run).ledger.total()

    async def here() -> tuple[list[Episode], LLMService]:
        async with LLMService(SETTINGS, say=lambda _: None) as llm:
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

    async def run(processes: GameProcesses, llm: LLMService) -> None:
        for seed in range(100):
            finished.append(await processes.play(partial(play_seed, seed), SPECS))

    with pytest.raises(BudgetSpent, match="one more game may need"):
        with_processes(run, max_cost=1.0)
    assert finished


def test_a_model_that_does_not_play_ends_the_run() -> None:
    async def run(processes: GameProcesses, llm: LLMService) -> None:
        await processes.play(partial(play_seed, 1), SPECS)

    with pytest.raises(StopPlaying, match="3 of 3 decisions were fallback moves"):
        with_processes(run, lambda _: ScriptedReply("I do not know."), max_fallbacks=3)


def test_a_fault_of_the_game_is_raised_with_its_place() -> None:
    async def run(processes: GameProcesses, llm: LLMService) -> None:
        with pytest.raises(LookupError, match="no such thing in RemoteService") as caught:
            await processes.play(fail, SPECS)
        assert "in fail" in "".join(caught.value.__notes__)
        with pytest.raises(UsageError, match="openai:x is not one of the models of this game"):
            await processes.play(partial(ask_for, "openai:x"), SPECS)
        with pytest.raises(Exception, match=r"pickle"):
            await processes.play(return_a_function, SPECS)
        # The worker goes on.
        assert await processes.play(partial(play_seed, 2), SPECS)

    with_processes(run)


def test_a_killed_worker_fails_its_games_and_no_others() -> None:
    async def run(processes: GameProcesses, llm: LLMService) -> None:
        killed, other = (
            asyncio.create_task(processes.play(work, SPECS))
            for work in (be_killed, partial(play_seed, 3))
        )
        with pytest.raises(ArenaError, match="a worker process was killed"):
            await killed
        assert await other

    with_processes(run)


def test_a_cancelled_game_leaves_nothing_behind() -> None:
    async def run(processes: GameProcesses, llm: LLMService) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await processes.play(wait_for_ever, SPECS)
        assert await processes.play(partial(play_seed, 4), SPECS)

    with_processes(run)


def test_errors_of_calls_survive_pickling() -> None:
    error = BackendError("it is busy", "rate_limit", retryable=True, retry_after=3.0)
    for kept in (error, ContextOverflow("too long")):
        twin = pickle.loads(pickle.dumps(kept))
        assert (type(twin), str(twin), vars(twin)) == (type(kept), str(kept), vars(kept))
