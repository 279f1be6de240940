"""A folder with a bit of everything that the home page shows."""

from __future__ import annotations

import shlex
from pathlib import Path

from training_rows import CONFIG

from arena.cli import run
from trainers.config.config import TrainConfig
from trainers.runs.records import RunFiles, RunState, StepRecord

HOSTILE_NAME = "<img src=x onerror=top.hacked=1>"


def arena_here(command: str) -> None:
    """Run a command of arena in this process: starting one takes a second."""
    code = run(shlex.split(command))
    assert code == 0, command


def write_run(
    folder: Path, records: list[StepRecord], status: str = "finished", config: TrainConfig = CONFIG
) -> RunFiles:
    files = RunFiles(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files.config.write_text(config.model_dump_json())
    write_records(files, records)
    files.state.write_text(RunState(step=len(records) - 1, status=status).model_dump_json())
    return files


def write_records(files: RunFiles, records: list[StepRecord]) -> None:
    lines = [record.model_dump_json() + "\n" for record in records]
    files.metrics.write_text("".join(lines))


def evaluations(folder: Path, deals: int = 12) -> None:
    """Two evaluations on the same deals, and a tournament."""
    common = f"--games {deals} --seed 5 --no-replays --executor inline"
    arena_here(f"eval kuhn_poker --player bot:random --out {folder}/eval/random {common}")
    arena_here(f"eval kuhn_poker --player bot:nash --out {folder}/eval/nash {common}")
