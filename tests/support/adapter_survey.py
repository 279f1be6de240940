"""What works of a game of another library: one random game, replayed and verified."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, act_out, play
from arena.episodes.replay import read_replay, verify
from arena.plugins.catalog import FamilyGame, make_game

SECONDS = 40.0
"""After which a game counts as endless."""


def survey(listed: FamilyGame) -> str:
    """Play one random game, write its replay and verify it; return the problem, or no text."""
    if listed.problem:
        return listed.problem
    try:
        game = make_game(listed.name)
        with tempfile.TemporaryDirectory() as folder:
            return _problem_in_play(game, Path(folder)) or _missing_texts(game)
    except ArenaError as error:
        return str(error)
    except Exception as error:  # The library may fail in any way.
        return f"{type(error).__name__}: {error}"


def _problem_in_play(game: Game, folder: Path) -> str:
    writer = ReplayWriter(folder, "game")
    # Where moves are free text, the random bot would only pass.
    bot = "bot:quoting" if game.speech else "bot:random"
    playing = play(Match(game, (bot,) * game.num_players, 1), watchers=[writer])
    try:
        episode = asyncio.run(asyncio.wait_for(playing, SECONDS))
    except TimeoutError:
        return f"not over after {SECONDS:g} s"
    if episode.failures:
        return f"a fallback was played: {episode.failures[0].text}"
    if episode.outcome.status != "terminated":
        return f"the game was {episode.outcome.status}"
    if episode.turns > (game.turn_bound or episode.turns):
        return f"{episode.turns} turns are more than its bound, {game.turn_bound}"
    return verify(read_replay(writer.path)) or ""


def _missing_texts(game: Game) -> str:
    """Name a seat that has no text beside the list of its actions when the game is over."""
    state = game.initial_state()
    act_out(state, random.Random(1), plies=400)  # Far enough for each seat to see something.
    for player in range(game.num_players):
        lines = [game.text.narrate(event) for event in state.log.witnessed[player]]
        if not any(line.strip() for line in lines):
            return f"{NO_TEXT} of seat {player}"
    return ""


NO_TEXT = "no text"


def survey_apart(listed: FamilyGame) -> str:
    """Survey a game in a process of its own, which a library may end or block."""
    # Forked: the library is imported once, in the parent.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, listed))
    process.start()
    sender.close()
    try:
        if not receiver.poll(2 * SECONDS):
            return f"its process did not end in {2 * SECONDS:g} s"
        return str(receiver.recv())
    except EOFError:
        process.join()
        return f"its process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()


def _send(sender: Connection, listed: FamilyGame) -> None:
    sender.send(survey(listed))
