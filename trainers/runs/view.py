"""Protocols of the renderers that a running training calls."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trainers.config.config import TrainConfig
from trainers.runs.records import StepRecord
from trainers.runs.training_run import TrainingRun


class TrainingView(Protocol):
    """Display of a run while it is going on: a live terminal view or plain lines."""

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
