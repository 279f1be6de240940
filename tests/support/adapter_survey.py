"""What works of a game of another library: one random game, replayed and verified.

python tests/support/adapter_survey.py FAMILY [OUT.json]
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, act_out, play
from arena.episodes.replay import read_replay, verify
from arena.plugins.families import FamilyGame
from arena.plugins.loader import game_family, make_game

SECONDS = 40.0
"""After which a game counts as endless."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Result of one game."""

    name: str
    summary: str
    information: str
    features: tuple[str, ...]
    players: str = ""
    loaded: bool = False
    finished: bool = False
    verified: bool = False
    text_per_seat: bool = False
    plies: int = 0
    problem: str = ""


def survey(listed: FamilyGame, seed: int = 1) -> Surveyed:
    """Play one random game, write its replay and verify it."""
    known: dict[str, Any] = {
        "name": listed.name,
        "summary": listed.summary,
        "information": listed.information,
        "features": listed.features,
        "players": listed.players,
    }
    if listed.problem:
        return Surveyed(**known, problem=listed.problem)
    try:
        game = make_game(listed.name)
        known["loaded"] = True
        known["players"] = known["players"] or str(game.num_players)
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
            return _failed(listed, f"its process did not end in {2 * SECONDS:g} s")
        found = receiver.recv()
        assert isinstance(found, Surveyed)
        return found
    except EOFError:
        process.join()
        return _failed(listed, f"its process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()


def _send(sender: Connection, listed: FamilyGame) -> None:
    sender.send(survey(listed))


def _failed(listed: FamilyGame, problem: str) -> Surveyed:
    return Surveyed(
        listed.name,
        listed.summary,
        listed.information,
        listed.features,
        listed.players,
        problem=problem,
    )


def main(family: str, out: str | None = None) -> None:
    """Survey all games of a family and print the counts."""
    found = list[Surveyed]()
    for listed in game_family(family).games():
        found.append(survey_apart(listed))
        print(found[-1].name, found[-1].problem, file=sys.stderr, flush=True)
    report(family, found)
    if out:
        games = [asdict(game) for game in found]
        Path(out).write_text(json.dumps(games, indent=1) + "\n", encoding="utf-8")


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


if __name__ == "__main__":
    main(*sys.argv[1:])
