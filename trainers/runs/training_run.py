"""A training run on disk: start, resume and read its folder; its results for all views.

A run has the folder `LOG_DIR/EXPERIMENT`. The same command resumes it if all settings that decide
what is learned are the same. `EXPERIMENT.lock` beside the folder is a file lock; the kernel
releases it if the process is killed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from filelock import Timeout
from pydantic import BaseModel, JsonValue, ValidationError

from arena.core.errors import ArenaError, UsageError
from arena.core.event import WIN_RATE, ReturnScale
from arena.core.game import Game
from arena.core.text import first_fault
from arena.episodes.files import is_locked, locked
from arena.evaluation.records import Interval
from arena.plugins.catalog import make_game
from backends.embedded import MIXTURE
from trainers.config.config import TrainConfig
from trainers.runs.records import (
    HeldOutResult,
    RunFiles,
    RunState,
    StepRecord,
    read_records,
)

Model = TypeVar("Model", bound=BaseModel)

NEW_RUN = "move its folder away, or choose another --experiment-name"
"""Remedy for a run that cannot continue."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Start of a run: in a new folder, or in the existing one."""

    files: RunFiles
    continues: bool = False
    done: int = 0
    """Steps that are already finished."""

    def __str__(self) -> str:
        if self.continues:
            return f"continues in {self.files.folder} after step {self.done}"
        return f"starts in {self.files.folder}"


def run_files(config: TrainConfig) -> RunFiles:
    """Return the paths of this run's files, which may not exist yet."""
    return RunFiles(Path(config.log_dir) / config.experiment)


def plan_run(config: TrainConfig) -> Plan:
    """Return where a run with this config starts. Nothing is written.

    An experiment that exists is resumed. Raises UsageError if it has other settings, or is not a
    run.
    """
    # A folder with drafts only is left by a run that was killed at once: it counts as empty.
    files = run_files(config)
    if not _has_content(files.folder):
        return Plan(files)
    if not files.config.exists():
        raise UsageError(
            f"--experiment-name {config.experiment}: {files.folder} is not an experiment of arena; "
            "choose another name"
        )
    differences = "; ".join(_differences(config, read_config(files)))
    if differences:
        raise UsageError(
            f"{files.folder} was started with other settings: {differences}. Use the same settings "
            f"to resume it; for a new run {NEW_RUN}"
        )
    return Plan(files, True, read_state(files).step)


def _has_content(folder: Path) -> bool:
    """Return whether the folder holds a complete file; drafts have names that start with a dot."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--log-dir: {folder} is a file where the experiment's folder should be")
    try:
        return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    except OSError as error:
        raise UsageError(f"--log-dir: {folder} cannot be read: {error.strerror}") from None


def _differences(ours: TrainConfig, theirs: TrainConfig) -> Iterator[str]:
    """Yield `--seed 1, now 2` for each setting that a resumed run may not change."""
    if ours.game != theirs.game:
        yield f"{theirs.game}, now {ours.game}"
        return
    for name, (now, before) in sorted(ours.differences(theirs).items()):
        if isinstance(now, dict) and isinstance(before, dict):
            for option in sorted(now.keys() | before.keys()):
                if now.get(option) != before.get(option):
                    yield f"--option {option}={before.get(option)}, now {now.get(option)}"
        else:
            setting = TrainConfig.spelled(name, _value_text(before))
            yield f"{setting}, now {_value_text(now)}"


def _value_text(value: JsonValue) -> str:
    return str(value) if value != "" else "''"


@contextmanager
def alone_in(folder: Path, command: str) -> Iterator[None]:
    """Exclude other processes of the command that write to a folder, which may not exist yet.

    If it does not exist afterwards, the lock file and the folders made for it are removed.
    """
    parent, path = folder.absolute().parent, lock_of(folder)
    missing = [each for each in (parent, *parent.parents) if not each.exists()]
    with ExitStack() as held:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(path))
        except Timeout:
            message = f"another {command} is writing to {folder}; wait for it"
            raise ArenaError(message) from None
        except OSError as error:
            raise ArenaError(f"cannot write into {parent}: {error.strerror}") from None
        try:
            yield
        finally:
            if not folder.exists():
                path.unlink(missing_ok=True)
            held.close()
            with suppress(OSError):
                # rmdir fails for a folder that has other files, which ends the clean-up.
                for each in missing:
                    each.rmdir()


def lock_of(folder: Path) -> Path:
    """Return the lock, beside the folder, which may not exist yet."""
    folder = folder.resolve()
    return folder.with_name(f"{folder.name}.lock")


def is_training(files: RunFiles) -> bool:
    """Return whether a process is training in this folder now."""
    return is_locked(lock_of(files.folder))


def read_config(files: RunFiles) -> TrainConfig:
    """Return the settings that the run was started with.

    Raises UsageError if the file cannot be read, or is not a config.
    """
    return _read(files.config, TrainConfig)


def read_state(files: RunFiles) -> RunState:
    """Return the state of the run. A run that has just been created may have no file yet.

    Raises UsageError if the file is broken, or missing although there are results. A run that is
    mistaken for a new one would delete its checkpoints.
    """
    if files.state.exists():
        return _read(files.state, RunState)
    checkpoints = sorted(files.checkpoints.glob("[0-9]*"))
    results = [f"{len(checkpoints)} checkpoints"] if checkpoints else []
    if files.metrics.exists() and files.metrics.stat().st_size:
        results.append(files.metrics.name)
    if results:
        raise UsageError(
            f"{files.state} is missing, but there are {' and '.join(results)} in {files.folder}: "
            f"put it back to resume; for a new run {NEW_RUN}"
        )
    return RunState()


def _read(path: Path, model: type[Model]) -> Model:
    try:
        return model.model_validate_json(path.read_text("utf-8"))
    except ValidationError as error:
        raise UsageError(
            f"{path} is broken, or of another version of arena: {first_fault(error, 'the file')}; "
            f"for a new run {NEW_RUN}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


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
        return self.config.steps if self.config else None

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

    @property
    def mixture(self) -> Path | None:
        """Name of the mixture over the kept checkpoints; None without self-play in this process."""
        has_one = self.config and self.config.keeps_mixture and self.state.step
        return self.files.checkpoints / MIXTURE if has_one else None


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
