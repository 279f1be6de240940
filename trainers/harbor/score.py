"""Rewards of a game for Harbor: `python -m trainers.harbor.score FOLDER SEAT LOWEST OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from arena.core.errors import ArenaError
from arena.episodes.measurement import measure_seats, ratio
from arena.episodes.replay import read_replay, verify
from arena.evaluation.analysis import episode_of

Rewards = dict[str, float]


def rewards(replay_path: Path, seat: int) -> Rewards:
    """Return the seat's return as `reward`, its fallback moves, and its exact measures.

    Raises ArenaError if the replay is unfinished or not by the rules.
    """
    replay = read_replay(replay_path)
    if replay.outcome is None:
        raise ArenaError(replay.notice or "the game is unfinished")
    if difference := verify(replay):
        raise ArenaError(f"not by the rules, at {difference}")
    episode = episode_of(replay)
    measured = measure_seats(replay.make_game(), episode)[seat]
    failed = [ply for ply in episode.plies if ply.player == seat and ply.decision.failure]
    found = {"reward": episode.outcome.returns[seat], "fallback_moves": float(len(failed))}
    return found | {name: ratio(value) for name, value in measured.items() if value.weight}


def main(folder: str, seat: str, lowest: str, out: str) -> int:
    """Write the rewards of the only replay in a folder; without one, the lowest."""
    try:
        [path] = Path(folder).glob("*.jsonl")
        found = rewards(path, int(seat))
    except (ArenaError, ValueError) as error:
        print(f"the game has no result: {error}", file=sys.stderr)
        found = {"reward": float(lowest)}
    Path(out).write_text(json.dumps(found, allow_nan=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
