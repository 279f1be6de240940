"""Progress of a training run in plain lines: for logs, pipes and `--json`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from arena.core.text import pluralize, printable
from trainers.runs.sentences import step_line

if TYPE_CHECKING:
    from trainers.config.config import TrainConfig
    from trainers.runs.records import StepRecord


class TrainingLines:
    """A `TrainingView` that prints one line per step to stderr."""

    def __init__(self) -> None:
        self._steps = self._done = 0
        self._messages: set[str] = set()

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        self._steps, self._done = config.total_steps, done
        steps = pluralize(self._steps, "step") + (f", {done} of them done" if done else "")
        self.notify(f"{config.experiment}: {config.game}, {steps}; {about}")

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        """Print nothing: a line cannot be overwritten, so only finished steps are shown."""

    def step(self, record: StepRecord) -> None:
        if record.step < self._done or record.step == self._done > 0:
            return  # An earlier session has shown it.
        self.notify(step_line(record, self._steps))
        for warning in record.warnings:
            if f"warning: {warning}" not in self._messages:
                self.notify(f"warning: {warning}")

    def notify(self, line: str) -> None:
        self._messages.add(line)
        print(printable(line), file=sys.stderr, flush=True)

    def close(self) -> None: ...
