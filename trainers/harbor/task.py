"""Writes the folder of a Harbor task: one fixed deal, in which the agent has seat 0.

The deal follows from a seed that only the container of the game has. The solution is the recorded
game of a strong bot on this deal.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from arena.core.errors import UsageError
from arena.core.seeds import draw_seed
from arena.core.version import __version__
from arena.envs.hosting import HostedGame
from arena.envs.recorded import RecordedGame, check_bots, record_game, strong_bot
from arena.envs.templates import filled_templates, write_files


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """A task that was written."""

    name: str
    seed: int
    solution: RecordedGame
    lowest: float
    """Reward of a game that does not end."""


def write_task(
    hosted: HostedGame, folder: Path, seed: int | None = None, solver: str = ""
) -> WrittenTask:
    """Write a task into a new folder; the seed of its deal is random by default.

    Raises:
        UsageError: The folder exists, an opponent is not a bot, or returns have no lower bound.
        ArenaError: The folder cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists: name a new folder, nothing is overwritten")
    check_bots(hosted.specs, "a task")
    if not hosted.game.return_scale.is_bounded:
        raise UsageError(f"returns of {hosted.game.name} have no bounds, so no game is the worst")
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "game"
    # A small seed could be tried out by an agent that installs arena.
    drawn = draw_seed() if seed is None else seed
    solved = asyncio.run(record_game(hosted, solver or strong_bot(hosted), drawn))
    task = WrittenTask(name, drawn, solved, hosted.game.return_scale.bounds[0])
    texts = filled_templates("trainers.harbor", _values(hosted, task))
    texts["solution/actions.txt"] = "".join(f"{action}\n" for action in solved.actions)
    write_files(folder, texts)
    for script in ("tests/test.sh", "solution/solve.sh", "environment/game/serve.sh"):
        (folder / script).chmod(0o755)
    return task


def _values(hosted: HostedGame, task: WrittenTask) -> dict[str, str]:
    """Return the value of each placeholder of the templates."""
    game = hosted.game
    options = game.options.model_dump(mode="json", exclude_defaults=True)
    words = [
        f"--seat {seat}={spec}" for seat, spec in enumerate(hosted.match(0, [0]).specs) if seat
    ]
    for name, value in options.items():
        text = value if isinstance(value, str) else json.dumps(value)
        words.append(f"--option {shlex.quote(f'{name}={text}')}")
    words += [f"--text-level {hosted.text_level}"]
    words += [f"--max-turns {hosted.max_turns}"] if hosted.max_turns else []
    return {
        "game": game.name,
        "name": task.name,
        "version": __version__,
        "opponents": ", ".join(dict.fromkeys(hosted.specs)),
        "scale": game.return_scale.name,
        "seed": str(task.seed),
        "lowest": f"{task.lowest:g}",
        "player": task.solution.player,
        "reward": f"{task.solution.reward:g}",
        "flags": " ".join(words),
    }
