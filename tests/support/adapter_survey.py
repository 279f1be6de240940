"""What works of a game of another library: one random game, replayed and verified."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, act_out, play
from arena.episodes.replay import read_replay, verify
from arena.plugins.loader import FamilyGame, make_game

SECONDS = 40.0
"""After which a game counts as endless."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Result of one game."""

    name: str
    loaded: bool = False
    finished: bool = False
    verified: bool = False
    text_per_seat: bool = False
    plies: int = 0
    problem: str = ""


def survey(listed: FamilyGame, seed: int = 1) -> Surveyed:
    """Play one random game, write its replay and verify it."""
    known: dict[str, Any] = {"name": listed.name}
    if listed.problem:
        return Surveyed(**known, problem=listed.problem)
    try:
        game = make_game(listed.name)
        known["loaded"] = True
        with tempfile.TemporaryDirectory() as folder:
            known |= _played(game, seed, Path(folder))
    except ArenaError as error:
        known["problem"] = str(error)
    except Exception as error:  # The library may fail in any way.
        known["problem"] = f"{type(error).__name__}: {error}"
    return Surveyed(**known)


def _played(game: Game, seed: int, folder: Path) -> dict[str, Any]:
    writer = ReplayWriter(folder, "game")
    # Where moves are free text, the random bot would only pass.
    bot = "bot:quoting" if game.speech else "bot:random"
    match = Match(game, (bot,) * game.num_players, seed)

    async def within_limit() -> Any:
        return await asyncio.wait_for(play(match, watchers=[writer]), SECONDS)

    try:
        episode = asyncio.run(within_limit())
    except TimeoutError:
        return {"problem": f"not over after {SECONDS:g} s"}
    if any(ply.decision.failure for ply in episode.plies):
        failure = next(ply.decision.failure for ply in episode.plies if ply.decision.failure)
        return {"problem": f"a fallback was played: {failure}"}
    difference = verify(read_replay(writer.path))
    if not difference and episode.turns > (game.turn_bound or episode.turns):
        difference = f"{episode.turns} turns are more than its bound, {game.turn_bound}"
    return {
        "finished": episode.outcome.status == "terminated",
        "verified": difference is None,
        "text_per_seat": _has_texts(game, seed),
        "plies": len(episode.plies),
        "problem": difference or "",
    }


def _has_texts(game: Game, seed: int) -> bool:
    """Return whether each seat has a text beside the list of its actions when the game is over."""
    state = game.initial_state()
    act_out(state, random.Random(seed), plies=400)  # Far enough for each seat to see something.
    for player in range(game.num_players):
        lines = [game.text.narrate(event) for event in state.log.witnessed[player]]
        if not any(line.strip() for line in lines):
            return False
    return True


def survey_apart(listed: FamilyGame) -> Surveyed:
    """Survey a game in a process of its own, which a library may end or block."""
    # Forked: the library is imported once, in the parent.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, listed))
    process.start()
    sender.close()
    try:
        if not receiver.poll(2 * SECONDS):
            return Surveyed(listed.name, problem=f"its process did not end in {2 * SECONDS:g} s")
        found = receiver.recv()
        assert isinstance(found, Surveyed)
        return found
    except EOFError:
        process.join()
        return Surveyed(listed.name, problem=f"its process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()


def _send(sender: Connection, listed: FamilyGame) -> None:
    sender.send(survey(listed))


def report(family: str, found: list[Surveyed]) -> None:
    """Print the counts, and each game with a problem."""
    counts = Counter(
        field
        for game in found
        for field in ("loaded", "finished", "verified", "text_per_seat")
        if getattr(game, field)
    )
    print(f"{family}: {len(found)} games, {dict(counts)}")
    for game in found:
        if game.problem:
            print(f"  {game.name}: {game.problem[:200]}")
