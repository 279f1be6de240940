"""Checks of replays: they verify, and games are reproducible."""

from __future__ import annotations

import asyncio
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import JsonValue

from arena.agents.agent import Agent, RandomBot, Seat
from arena.core.game import Game
from arena.core.seeds import stream
from arena.episodes.match import Match
from arena.episodes.replay import read_replay
from arena.episodes.replay_writer import ReplayWriter
from arena.episodes.runner import play
from arena.episodes.verify import verify


def check_replay(game: Game, seed: int) -> None:
    """Check that the replay of a game verifies, and that a seed gives the same bytes twice."""
    with tempfile.TemporaryDirectory() as folder:
        # Both have the same name; the writer adds a number to the second one.
        first = _record(game, seed, Path(folder))
        second = _record(game, seed, Path(folder))
        difference = verify(read_replay(first))
        assert difference is None, f"seed {seed}: the replay does not verify: {difference}"
        assert without_times(first) == without_times(second), f"seed {seed}: two runs differ"


def _record(game: Game, seed: int, folder: Path) -> Path:
    writer = ReplayWriter(folder, "game")
    agents: list[Agent] = [
        RandomBot(Seat(game, player, stream(seed, f"agent {player}")))
        for player in range(game.num_players)
    ]
    playing = play(Match(game, seed=seed), agents, watchers=[writer])
    # In a thread of its own, because the caller's thread may have a running event loop.
    with ThreadPoolExecutor(1) as pool:
        episode = pool.submit(asyncio.run, playing).result()
    assert len(episode.outcome.returns) == game.num_players
    return writer.path


def without_times(path: Path) -> list[dict[str, JsonValue]]:
    """Return the lines of a replay without the two kinds of times."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in line.items() if k not in ("created", "seconds")} for line in lines]
