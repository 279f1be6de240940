"""A training run told in lines: for logs, and for terminals that are none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from arena.core.text import counted
from arena.evaluation.output.tables import number, percent

if TYPE_CHECKING:
    from trainers.config.config import TrainConfig
    from trainers.runs.records import StepRecord


class TrainingLines:
    """One line per step on stderr; a `TrainingView`."""

    def __init__(self) -> None:
        self._steps = self._done = 0

    def begin(self, config: TrainConfig, done: int, about: str) -> None:
        self._steps, self._done = config.total_steps, done
        so_far = f" after {done}" if done else ""
        self.say(
            f"{config.experiment}: {config.game}, {counted(self._steps, 'step')}{so_far}; {about}"
        )

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        """Lines are not written over, so only finished steps are told."""

    def step(self, record: StepRecord) -> None:
        if record.step < self._done or record.step == self._done > 0:
            return  # An earlier command has told it.
        self.say(f"step {record.step}/{self._steps}: {', '.join(_told(record))}")
        for warning in record.warnings:
            self.say(f"  {warning}")

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None: ...


def _told(record: StepRecord) -> list[str]:
    """What is known of a step; the starting policy has played no training games."""
    told = []
    if record.reward.value is not None:
        told.append(f"reward {number(record.reward.model_dump(), 2, signed=True)}")
    if record.win_rate.value is not None:
        told.append(
            f"won {percent(record.win_rate.model_dump())} of {counted(record.games, 'game')}"
        )
    groups = record.groups
    dropped = groups.incomplete + groups.no_variance
    if groups.trained or dropped:
        left_out = f" ({dropped} dropped)" if dropped else ""
        told.append(counted(groups.trained, "group") + left_out)
    if record.legality is not None:
        told.append(f"{100 * record.legality:.1f} % legal")
    told += [f"{name} {value:.3g}" for name, value in record.update.items() if name in UPDATE]
    if record.evaluation:
        gain = percent(record.evaluation.gain.model_dump(), signed=True)
        best = ", the best so far" if record.best else ""
        told.append(f"gain {gain} in {counted(record.evaluation.games, 'game')}{best}")
    return [*told, f"{record.seconds:.1f} s"]


UPDATE = ("loss", "entropy", "kl")
"""What is told of an update; the others are in metrics.jsonl."""
