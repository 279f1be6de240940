"""The result of `arena train`: lines for people, and the object of `--json`."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from arena.plugins.loader import make_game
from trainers.runs.records import as_json
from trainers.runs.sentences import checkpoint_name, delta_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic import JsonValue

    from trainers.config.config import TrainConfig
    from trainers.runs.training_run import TrainingRun


def result_json(run: TrainingRun) -> dict[str, JsonValue]:
    """Return what `--json` prints at the end."""
    checkpoint = _checkpoint(run)
    return {
        "experiment": run.name,
        "step": run.state.step,
        "status": run.state.status,
        "reason": run.state.reason,
        "final": as_json(run.state)["final"],
        "folder": str(run.files.folder),
        "report": str(run.files.report) if run.files.report.exists() else None,
        "checkpoint": str(checkpoint) if checkpoint else None,
    }


def result_lines(run: TrainingRun) -> Iterator[str]:
    """Yield the results, where the files are, and the command that plays the checkpoint."""
    yield f"Finished steps: {run.state.step} of {run.total_steps}."
    for evaluation in run.final_evaluations():
        if evaluation.step is not None:  # There is no best step if none beat the start.
            yield f"{checkpoint_name(evaluation).capitalize()}: {delta_line(evaluation)}"
    if run.files.report.exists():
        yield f"Report:  {run.files.report}"
    if run.files.replays.is_dir():
        yield f"Replays: {run.files.replays}"
    checkpoint = _checkpoint(run)
    if checkpoint and run.config:
        yield f"Play it: {play_command(run.config, checkpoint)}"


def _checkpoint(run: TrainingRun) -> Path | None:
    """Return the best checkpoint, or the newest one if none was better than the start."""
    step = run.state.step if run.state.best_step is None else run.state.best_step
    return run.files.checkpoint(step)


def play_command(config: TrainConfig, checkpoint: Path) -> str:
    """Return the command that plays a checkpoint with the game options of its training."""
    words = ["arena", "play", config.game]
    defaults = make_game(config.game).options.model_dump(mode="json")
    for name, value in config.options.items():
        if value == defaults.get(name):
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--players", text] if name == "players" else ["-o", f"{name}={text}"]
    words += ["--text-level", config.text_level, "--seat", f"0=embedded:{checkpoint}"]
    return shlex.join(words)
