"""The model of a training run: settings, records and state, with the results and the figures that
views draw, each computed once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.outcome import WIN_RATE, ReturnScale
from arena.evaluation.records import Interval
from arena.plugins.catalog import make_game
from trainers.config.config import TrainConfig
from trainers.runs.records import (
    HeldOutResult,
    RunFiles,
    RunState,
    StepRecord,
    read_records,
)
from trainers.runs.run_files import is_training, read_config, read_state


class CheckpointEvaluation(HeldOutResult):
    """A held-out result with its checkpoint."""

    checkpoint: str
    step: int | None
    best: bool = False
    final: bool = False
    """True for the final deals, which did not select the best checkpoint."""


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A training run on disk or in progress. All renderers take their numbers from here."""

    files: RunFiles
    config: TrainConfig | None
    """None if config.json cannot be read."""
    state: RunState
    records: Sequence[StepRecord]
    """Records in the order of the steps."""
    fault: str = ""
    """Files that could not be read, with the reasons."""

    @classmethod
    def read(cls, folder: Path) -> TrainingRun:
        """Read a run's folder. A file that cannot be read is reported in `fault`."""
        files, faults = RunFiles(folder), list[str]()
        config, state, records = None, RunState(), list[StepRecord]()
        with _collected(faults):
            config = read_config(files)
        with _collected(faults):
            state = read_state(files)
        with _collected(faults):
            records = read_records(files.metrics)
        return cls(files, config, state, records, "; ".join(faults))

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return self.files.folder.name

    @property
    def total_steps(self) -> int | None:
        """Number of steps of the whole run; None if the config is unknown."""
        return self.config.total_steps if self.config else None

    @property
    def status(self) -> str:
        """The status in run.json, `interrupted` for a run that was killed, or `broken`."""
        if self.fault:
            return "broken"
        # A killed run cannot update run.json, but the kernel has released its lock.
        if self.state.status == "running" and not is_training(self.files):
            return "interrupted"
        return self.state.status

    @property
    def par(self) -> float | None:
        """Win rate of equal players in the run's game; None if its plugin is not installed."""
        game = self.make_game()
        return game.return_scale.par_of(game.num_players) if game else None

    def make_game(self) -> Game | None:
        """Return the run's game; None if its plugin is not installed."""
        if self.config is None:
            return None
        try:
            return make_game(self.config.game, **self.config.options)
        except ArenaError:
            return None

    @property
    def games(self) -> int:
        """Number of training games."""
        return sum(record.games for record in self.records)

    @property
    def seconds(self) -> float:
        """Duration of all steps."""
        return sum(finite(record.seconds) or 0.0 for record in self.records)

    @property
    def delta(self) -> Interval:
        """The best delta on held-out deals, on the scale of the game's returns.

        It is measured on the final deals if they were played: of the best checkpoint, or of the
        newest one if no checkpoint was better than the starting policy. Otherwise it is the
        largest delta of the periodic evaluations (see `delta_selected`).
        """
        for name in ("best", "newest"):
            if name in self.state.final:
                return self.state.final[name].delta
        # Without step 0, whose delta is 0 by definition.
        deltas = [one.delta for one in self.learning_curve() if one.step]
        known = [delta for delta in deltas if delta.value is not None]
        return max(known, key=lambda delta: delta.value or 0.0, default=Interval())

    @property
    def delta_selected(self) -> bool:
        """True if `delta` was selected by its own deals and so is biased upwards."""
        return not self.state.final and self.delta.value is not None

    @property
    def scale(self) -> ReturnScale:
        """Scale of the game's returns, as the newest evaluation has it."""
        final = list(self.state.final.values())
        measured = final or [row.evaluation for row in self.records if row.evaluation]
        return measured[-1].scale if measured else WIN_RATE

    def learning_curve(self) -> list[CheckpointEvaluation]:
        """Return the periodic evaluations."""
        return [
            CheckpointEvaluation(
                **dict(record.evaluation),
                checkpoint=f"step {record.step}",
                step=record.step,
                best=record.step == self.state.best_step,
            )
            for record in self.records
            if record.evaluation
        ]

    def final_evaluations(self) -> list[CheckpointEvaluation]:
        """Return the results on the final deals: best and newest checkpoint."""
        steps = {"newest": self.state.step, "best": self.state.best_step}
        return [
            CheckpointEvaluation(
                **dict(self.state.final[name]),
                checkpoint=f"{name} checkpoint",
                step=steps[name],
                final=True,
            )
            for name in ("best", "newest")
            if name in self.state.final
        ]


@contextmanager
def _collected(faults: list[str]) -> Iterator[None]:
    """Append the message of an error in the body to `faults`."""
    try:
        yield
    except ArenaError as error:
        faults.append(str(error))


def finite(value: float | None) -> float | None:
    """Return the number, or None if it is not finite: a broken run may have recorded NaN."""
    return value if value is not None and math.isfinite(value) else None
