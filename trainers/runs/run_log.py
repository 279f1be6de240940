"""The files that a running training writes, so that it can resume after its last finished step.

Order within step k: the host saves checkpoint k, the record is appended to metrics.jsonl, run.json
marks the step as finished. Everything beyond the step in run.json is unfinished: it is removed when
the run is resumed, and the step is repeated with the same seeds.

Displays and reports of a run in progress follow the protocols at the end.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from arena.episodes.files import write_whole
from arena.llm.ledger import Ledger
from trainers.config.config import TrainConfig
from trainers.runs.records import (
    RunFiles,
    RunState,
    StepCosts,
    StepRecord,
    read_lines,
    read_records,
)
from trainers.runs.run_files import read_state
from trainers.runs.training_run import TrainingRun


class RunLog:
    """Writer of the files of one run."""

    def __init__(self, folder: Path) -> None:
        """Read the state. Raises UsageError if run.json exists and cannot be read."""
        self.files = RunFiles(folder)
        self.state = read_state(self.files)
        self.records: list[StepRecord] = []

    def start(self, config: TrainConfig) -> None:
        """Create the folder, or remove what a killed run has left unfinished."""
        finished = self.state.step
        records = read_records(self.files.metrics)
        self.records = [record for record in records if record.step <= finished]
        costs = len(read_lines(self.files.ledger, StepCosts))
        self.files.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.files.config, config.model_dump_json(indent=1) + "\n")
        # Rewrites the file without records of unfinished steps and without an incomplete line.
        write_whole(self.files.metrics, "".join(map(_line, self.records)))
        if self.files.ledger.exists():
            lines = self.files.ledger.read_text("utf-8").split("\n")[:costs]
            write_whole(self.files.ledger, "".join(f"{line}\n" for line in lines))
        for replays in self.files.replays.glob("step*"):
            if not replays.name[4:].isdigit() or int(replays.name[4:]) > finished:
                shutil.rmtree(replays)

    def append(self, record: StepRecord) -> None:
        """Append a record and flush it to disk, before the step counts as finished."""
        self.records.append(record)
        _append(self.files.metrics, _line(record))

    def append_costs(self, step: int, ledger: Ledger) -> None:
        """Append the calls that were made since the last line to ledger.jsonl."""
        _append(self.files.ledger, json.dumps({"step": step, **ledger.to_json()}) + "\n")

    def spent(self) -> tuple[float, int]:
        """Return the US dollars and the tokens of all sessions of the run so far."""
        lines = [line.total for line in read_lines(self.files.ledger, StepCosts)]
        tokens = (line.prompt_tokens + line.completion_tokens for line in lines)
        return sum(line.cost for line in lines), sum(tokens)

    def commit(self, state: RunState) -> None:
        """Replace run.json. From here on the step of `state` is finished."""
        self.state = state
        write_whole(self.files.state, state.model_dump_json(indent=1) + "\n")

    def run(self, config: TrainConfig) -> TrainingRun:
        """Return the run so far."""
        return TrainingRun(self.files, config, self.state, self.records)


def kept_steps(state: RunState, pool: int, *also: int) -> set[int]:
    """Return the steps whose checkpoints are kept: the newest, the best and an even pool."""
    # The steps of the next KL reference and of the weights that play come as `also`.
    best = () if state.best_step is None else (state.best_step,)
    return {state.step, *best, *also, *evenly(state.step, pool)}


def evenly(newest: int, count: int) -> Sequence[int]:
    """Return at most `count` steps from 0 on: multiples of the smallest sufficient power of two.

    As the steps grow, the stride only doubles. So a step that was dropped is never needed again.
    """
    if count <= 0:
        return ()
    stride = 1
    while newest // stride + 1 > count:  # The number of multiples, 0 among them.
        stride *= 2
    return range(0, newest + 1, stride)


def reason_of(error: OSError) -> str:
    """Return the reason of a failed write in one line; the first of several."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        return str(error.args[0][0][2])
    return error.strerror or str(error)


def _line(record: StepRecord) -> str:
    return record.model_dump_json() + "\n"


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
        file.flush()
        # Without fsync, a crash of the machine could lose the record of a finished step.
        os.fsync(file.fileno())


class TrainingView(Protocol):
    """Display of a run while it is going on."""

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        """Start the display after `done` finished steps; `about` names the host."""

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        """Show the current phase (`rollouts`, `update`, `evaluation`, …) and its progress."""

    def step(self, record: StepRecord) -> None:
        """Show a finished step. A resumed run first passes the records of earlier sessions."""

    def notify(self, line: str) -> None:
        """Show a warning or a message."""

    def close(self) -> None:
        """End the display."""


class ReportWriter(Protocol):
    """Function that writes a run's report to `path`. The command line passes it to `train`."""

    def __call__(self, run: TrainingRun, path: Path) -> None: ...
