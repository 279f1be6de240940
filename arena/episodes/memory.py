"""Memory of models across games: what the scaffold "memory" keeps, and the order of its games.

A model with "memory" starts a game with its newest notes of the game before, and with the return of
that game. So its games are played one after the other. Each replay has in its header what its
seats started with: a game can be verified alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from arena.agents.scaffold import own_notes
from arena.core.errors import UsageError
from arena.core.spec import Spec, redacted
from arena.episodes.job import FinishedJob, GameJob
from arena.episodes.record import DecisionLine
from arena.episodes.replay import Replay, read_replay

R = TypeVar("R")
Owner = tuple[str, int]
"""SPEC of a player, and its number among the seats of a game with the same SPEC."""
RESULT = "\nYour return in your last game: "


def owners_of(specs: Sequence[str]) -> dict[int, Owner]:
    """Return the owner of each memory in a game, by seat."""
    seats = [seat for seat, spec in enumerate(specs) if Spec.parse(spec).scaffold == "memory"]
    return {seat: (redacted(specs[seat]), specs[:seat].count(specs[seat])) for seat in seats}


def memories_of(games: Iterable[tuple[int, Sequence[str]]]) -> Memories | None:
    """Return the memories of a run's players; None if no player has one.

    `games` are seeds and players. Raises UsageError if a player would remember a deal.
    """
    deals = Counter((seed, owner) for seed, specs in games for owner in owners_of(specs).values())
    for (seed, (spec, _)), number in deals.items():
        if number > 1:
            raise UsageError(
                f"{spec} would play the deal of seed {seed} {number} times and remember what was "
                "hidden in it; give another scaffold to players of both sides of a comparison"
            )
    return Memories() if deals else None


def memory_after(replay: Replay, seat: int) -> str:
    """Return what the model of a seat takes into its next game."""
    memories = replay.header.memories
    notes = memories[seat].partition(RESULT)[0] if memories else ""
    for move in replay.moves:
        if not isinstance(move, DecisionLine) or move.player != seat:
            continue
        attempts = move.details.get("attempts")
        for attempt in attempts if isinstance(attempts, list) else ():
            newest = own_notes(str(attempt.get("reply", ""))) if isinstance(attempt, dict) else None
            notes = notes if newest is None else newest
    returns = replay.outcome.returns[seat] if replay.outcome else 0.0
    return f"{notes}{RESULT}{returns:g}"


class Memories:
    """Memories of the players of a run, which each game passes on to the next one."""

    def __init__(self) -> None:
        self._last: dict[Owner, asyncio.Future[str]] = {}
        """By owner: what its newest game, which may be in play, will leave."""

    def add(self, replay: Path) -> None:
        """Add the newest finished game of an earlier session. Raises ReplayError."""
        read = read_replay(replay)
        for seat, owner in owners_of(read.header.players).items():
            self._promise(owner).set_result(memory_after(read, seat))

    async def run(
        self, job: GameJob[R], run: Callable[[GameJob[R]], Awaitable[FinishedJob[R]]]
    ) -> FinishedJob[R]:
        """Run a job once the games before it have left its memories; called in their order."""
        owners = owners_of(job.match.specs)
        # A branch starts with the memories of its parent.
        if not owners or job.start is not None:
            return await run(job)
        before = {seat: self._last.get(owner) for seat, owner in owners.items()}
        mine = {seat: self._promise(owner) for seat, owner in owners.items()}
        try:
            left = {seat: await last if last else "" for seat, last in before.items()}
            memories = tuple(left.get(seat, "") for seat in range(len(job.match.specs)))
            finished = await run(replace(job, match=replace(job.match, memories=memories)))
            if finished.replay is None:
                raise UsageError("the scaffold 'memory' reads replays: leave out replays=false")
            replay = read_replay(finished.replay)
            for seat, promise in mine.items():
                promise.set_result(memory_after(replay, seat))
        except Exception as error:
            for promise in mine.values():
                promise.set_exception(error)
                promise.exception()  # Without a later game no other code reads it.
            raise
        finally:
            for promise in mine.values():
                promise.cancel()  # Of a game that was cancelled; others are done.
        return finished

    def _promise(self, owner: Owner) -> asyncio.Future[str]:
        self._last[owner] = asyncio.get_running_loop().create_future()
        return self._last[owner]
