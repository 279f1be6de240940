"""Games with models in worker processes; their calls go through the LLMService of this process.

Rules, bots, prompts, parsers and measures need far more time than the calls themselves. In worker
processes they use all cores, and the event loop of this process only waits for providers, so that
limits, budget and ledger stay in one place.
"""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from arena.core.errors import ArenaError, StopPlaying
from arena.episodes.game_worker import serve_games
from arena.episodes.process_messages import (
    CallEnd,
    CallStart,
    Channel,
    DecisionCount,
    GameCancel,
    GameEnd,
    GameStart,
    GameWork,
    HintLine,
    picklable,
)
from arena.llm.backend import BackendTraits
from arena.llm.service import LLMService

T = TypeVar("T")

SECONDS_TO_END = 10.0
"""Time in which a worker closes its files before it is terminated."""


@dataclass(slots=True)
class _Game(Generic[T]):
    """A game in a worker, seen from this process."""

    result: asyncio.Future[T]
    context: contextvars.Context
    """Names the game for the budget, which counts the calls of each game."""
    calls: set[asyncio.Task[None]] = field(default_factory=set)


class GameProcesses:
    """Worker processes that play games with the models of one LLMService.

    async with GameProcesses(llm, 2) as processes:
        result = await processes.play(partial(play_one, match), match.specs)
    """

    def __init__(self, llm: LLMService, number: int) -> None:
        self._workers = [_Worker(llm) for _ in range(number)]
        self._llm = llm

    async def __aenter__(self) -> Self:
        for worker in self._workers:
            await worker.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(worker.end() for worker in self._workers))

    async def play(self, work: GameWork[T], specs: Iterable[str]) -> T:
        """Play a game in the worker with the fewest games, as soon as the budget covers it.

        Raises the errors of the game, of its calls, and ArenaError if the worker was killed.
        """
        specs = list(specs)
        traits = {spec: self._llm.traits(spec) for spec in self._llm.models(specs)}
        async with self._llm.game(specs):
            worker = min(self._workers, key=lambda worker: len(worker.games))
            return await worker.play(work, traits)


class _Worker:
    """One worker process, seen from this process."""

    def __init__(self, llm: LLMService) -> None:
        self.games: dict[int, _Game[Any]] = {}
        self._llm = llm
        self._numbers = count()
        self._is_lost = False

    async def start(self) -> None:
        ours, theirs = socket.socketpair()
        # "spawn", since a fork would copy locks that other threads hold.
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=serve_games, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._channel = await Channel.over(ours)
        self._reading = asyncio.create_task(self._read())

    async def end(self) -> None:
        """Close the channel, upon which the worker drops its games and ends."""
        self._reading.cancel()
        self._channel.close()
        await asyncio.to_thread(self._process.join, SECONDS_TO_END)
        if self._process.is_alive():
            self._process.terminate()

    async def play(self, work: GameWork[T], traits: Mapping[str, BackendTraits]) -> T:
        if self._is_lost:
            raise _lost_worker()
        number = next(self._numbers)
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        game = self.games[number] = _Game(result, contextvars.copy_context())
        try:
            self._channel.send(GameStart(number, work, traits))
            return await result
        finally:
            del self.games[number]
            for call in game.calls:
                call.cancel()
            # A game that has ended ignores it.
            self._channel.send(GameCancel(number))

    async def _read(self) -> None:
        """Process the messages of the worker until it ends."""
        while (message := await self._channel.receive()) is not None:
            match message:
                case GameEnd(number, result, error):
                    self._settle(number, result, error)
                case CallStart(number) if game := self.games.get(number):
                    answering = self._answer(message)
                    task = asyncio.get_running_loop().create_task(answering, context=game.context)
                    game.calls.add(task)
                    task.add_done_callback(game.calls.discard)
                case DecisionCount(number, spec, failure):
                    try:
                        self._llm.count_decision(spec, failure)
                    except StopPlaying as stop:
                        self._settle(number, None, stop)
                case HintLine(topic, line):
                    self._llm.hint(topic, line)
        self._is_lost = True
        for number in [*self.games]:
            self._settle(number, None, _lost_worker())

    def _settle(self, number: int, result: object, error: BaseException | None) -> None:
        game = self.games.get(number)
        if game is None or game.result.done():
            return
        if error is None:
            game.result.set_result(result)
        else:
            game.result.set_exception(error)

    async def _answer(self, start: CallStart) -> None:
        try:
            completion = await self._llm.complete(start.spec, start.request)
        except Exception as error:  # The agent that made the call decides what it means.
            self._channel.send(CallEnd(start.call, error=picklable(error)))
        else:
            self._channel.send(CallEnd(start.call, completion))


def _lost_worker() -> ArenaError:
    return ArenaError(
        "a worker process was killed (out of memory?); finished games are kept: continue with "
        "--resume, perhaps with fewer --workers"
    )
