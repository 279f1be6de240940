"""How a training run has ended, in words and as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from arena.core.text import counted
from arena.evaluation.output.tables import percent
from arena.plugins.loader import make_game
from trainers.runs.run_files import checkpoint_of

if TYPE_CHECKING:
    from pathlib import Path

    from arena.core.json import Json
    from trainers.config.config import TrainConfig
    from trainers.runs.records import Evaluated, RunFiles, RunState


def result(config: TrainConfig, files: RunFiles, state: RunState) -> dict[str, Json]:
    """What `--json` prints at the end."""
    checkpoint = checkpoint_of(config, files, _best_step(state))
    return {
        "experiment": config.experiment,
        "step": state.step,
        "status": state.status,
        "reason": state.reason,
        "final": json.loads(state.model_dump_json())["final"],
        "folder": str(files.folder),
        "report": str(files.report) if files.report.exists() else None,
        "checkpoint": str(checkpoint) if checkpoint else None,
    }


def _best_step(state: RunState) -> int:
    """The step to play: the best, or the newest where none beat the starting policy."""
    return state.step if state.best_step is None else state.best_step


def ending(config: TrainConfig, files: RunFiles, state: RunState) -> Iterator[str]:
    """Lines for a person: what was gained, where to look, how to play the result."""
    yield f"Finished steps: {state.step} of {config.total_steps}."
    for name, found in state.final.items():
        if name == "best" and state.best_step is None:
            continue  # None was better than the starting policy when it was measured.
        step = state.best_step if name == "best" else state.step
        yield f"The {name} checkpoint, of step {step}: {gain_in_words(found)}"
    if files.report.exists():
        yield f"Report:  {files.report}"
    if files.replays.is_dir():
        yield f"Replays: {files.replays}"
    checkpoint = checkpoint_of(config, files, _best_step(state))
    if checkpoint:
        yield f"Play it: {play_command(config, checkpoint)}"


def gain_in_words(found: Evaluated) -> str:
    """`+21 points [+15, +27] on 400 deals, from 41 % to 62 %`."""
    gain = percent(found.gain.model_dump(), signed=True)
    start, now = (
        percent(rate.model_dump()).partition(" [")[0] for rate in (found.start, found.win_rate)
    )
    return f"{gain} on {counted(found.games, 'deal')}, from {start} to {now}"


def play_command(config: TrainConfig, checkpoint: Path) -> str:
    """The command that plays a checkpoint as it was trained."""
    words = ["arena", "play", config.game]
    usual = make_game(config.game).options.model_dump(mode="json")
    for name, value in config.options.items():
        if value == usual.get(name):
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        words += [f"--{name}", text] if name in {"variant", "players"} else ["-o", f"{name}={text}"]
    words += ["--text-level", config.text_level, "--seat", f"0=embedded:{checkpoint}"]
    return shlex.join(words)
