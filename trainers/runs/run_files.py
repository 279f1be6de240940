"""Folders of runs: beginning one, going on with one, putting one aside; reading them later.

A run lies in `LOG_DIR/EXPERIMENT`. The same command goes on where it ended, if all that decides
what is learned is the same; nothing is ever deleted or overwritten. Beside a folder lies
`EXPERIMENT.lock`, which the kernel unlocks when a run is killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from arena.core.errors import ArenaError, UsageError
from trainers.config.config import TrainConfig
from trainers.runs.records import RunFiles, RunState, StepRecord, read_records

Model = TypeVar("Model", bound=BaseModel)

Start = Literal["new", "continue", "fresh"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a command begins: a new folder, the old one, or a new one after moving the old aside."""

    files: RunFiles
    start: Start
    done: int = 0
    """Steps that are finished already."""

    def __str__(self) -> str:
        if self.start == "continue":
            return f"goes on in {self.files.folder} after step {self.done}"
        if self.start == "fresh":
            return f"begins in {self.files.folder}; what is there is moved aside"
        return f"begins in {self.files.folder}"


def run_files(config: TrainConfig) -> RunFiles:
    """Where the files of this run are, or will be."""
    return RunFiles(Path(config.log_dir) / config.experiment)


def plan_run(config: TrainConfig, resume: bool | None = None) -> Plan:
    """How a run with this config begins; nothing is written.

    `resume`: True demands that there is something to go on with, False begins anew, None goes on
    if it can. Raises UsageError where that is impossible: another config, no experiment at all.
    """
    files = run_files(config)
    there = _is_there(files.folder)
    if resume is False:
        return Plan(files, "fresh" if there else "new")
    if not there:
        if resume:
            raise UsageError(
                f"--resume: there is no experiment '{config.experiment}' in {config.log_dir}; "
                "name it with --experiment-name, or begin it without --resume"
            )
        return Plan(files, "new")
    if not files.config.exists():
        raise UsageError(
            f"--experiment-name {config.experiment}: {files.folder} is no experiment of arena; "
            "choose another name"
        )
    _check_same(files, config)
    return Plan(files, "continue", read_state(files).step)


def _is_there(folder: Path) -> bool:
    """A folder without a file that was finished is as good as none."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--log-dir: {folder} is a file where the experiment's folder should be")
    try:
        return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    except OSError as error:
        raise UsageError(f"--log-dir: {folder} cannot be read: {error.strerror}") from None


def _check_same(files: RunFiles, config: TrainConfig) -> None:
    told = "; ".join(_differences(config, read_config(files)))
    if told:
        raise UsageError(
            f"{files.folder} was begun with other settings: {told}. Use the same ones to go on "
            "with it, --fresh to begin anew (the old run is moved aside), or another "
            "--experiment-name"
        )


def _differences(ours: TrainConfig, theirs: TrainConfig) -> Iterator[str]:
    """`--seed 1, now 2`, for all that may not change."""
    if ours.game != theirs.game:
        yield f"{theirs.game}, now {ours.game}"
        return
    for name, pair in sorted(ours.differences(theirs).items()):
        now, had = pair
        if name == "lora_rank":
            yield f"{_rank(had)}, now {_rank(now)} (--lora-rank; --server needs an adapter)"
        elif name != "options":
            yield f"--{name.replace('_', '-')} {_told(had)}, now {_told(now)}"
        else:
            for option in sorted(now.keys() | had.keys()):
                if now.get(option) != had.get(option):
                    yield f"--option {option}={had.get(option)}, now {now.get(option)}"


def _rank(rank: int) -> str:
    return f"an adapter of rank {rank}" if rank else "all weights are trained"


def _told(value: object) -> str:
    return repr(value) if isinstance(value, str) and not value else str(value)


@contextmanager
def begin_run(plan: Plan) -> Iterator[RunFiles]:
    """Keep other runs out of the folder; for a fresh start, move the old one aside.

    Whoever trains writes config.json as soon as nothing can be wrong with the config. If it finds
    something wrong before that, everything is as it was.
    """
    files = plan.files
    with _locked(files):
        aside = put_aside(files.folder)
        try:
            if plan.start == "fresh":
                files.folder.rename(aside)
        except OSError as error:
            raise ArenaError(f"cannot move {files.folder} aside: {error.strerror}") from None
        try:
            yield files
        finally:
            if plan.start == "fresh" and not files.folder.exists():
                aside.rename(files.folder)


@contextmanager
def _locked(files: RunFiles) -> Iterator[None]:
    """Hold the lock; what was made for it goes again if no run has come of it."""
    home = files.folder.parent
    missing = [folder for folder in (home, *home.parents) if not folder.exists()]
    lock = lock_of(files)
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise ArenaError(f"another arena train is writing to {files.folder}; wait for it") from None
    except OSError as error:
        raise ArenaError(f"cannot write into {home}: {error.strerror}") from None
    try:
        yield
    finally:
        if not files.folder.exists():
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()


def lock_of(files: RunFiles) -> FileLock:
    """Held by the run that writes; `acquire` raises Timeout at once if another does."""
    folder = files.folder.resolve()
    return FileLock(folder.with_name(f"{folder.name}.lock"), timeout=0)


def is_written(files: RunFiles) -> bool:
    """Whether some process is training there now."""
    lock = lock_of(files)
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock:
            return False
    except Timeout:
        return True
    except OSError:  # Another user's folder; what its run.json says must do.
        return True


def put_aside(folder: Path) -> Path:
    """The first name that is free, of NAME.old-1, NAME.old-2, …"""
    names = (folder.with_name(f"{folder.name}.old-{number}") for number in count(1))
    return next(path for path in names if not path.exists())


def read_config(files: RunFiles) -> TrainConfig:
    """What the run was begun with. Raises UsageError for a file that is broken or a stranger's."""
    return _read(files.config, TrainConfig)


def read_state(files: RunFiles) -> RunState:
    """How the run stands; a run that has just been made may have no file yet.

    Raises UsageError if it is missing or broken: whoever took the run for a new one would delete
    its checkpoints.
    """
    if files.state.exists():
        return _read(files.state, RunState)
    checkpoints = sorted(files.art.glob("*/models/*/checkpoints/[0-9]*"))
    there = [f"{len(checkpoints)} checkpoints"] if checkpoints else []
    if files.metrics.exists() and files.metrics.stat().st_size:
        there.append(files.metrics.name)
    if there:
        raise UsageError(
            f"{files.state} is missing, but there are {' and '.join(there)} in {files.folder}: put "
            "it back to go on; --fresh moves the run aside and begins anew"
        )
    return RunState()


def read_rows(files: RunFiles) -> list[StepRecord]:
    """The rows that are whole. Raises UsageError for a file that is no text."""
    try:
        return read_records(files.metrics)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{files.metrics} cannot be read: {error}") from None


def _read(path: Path, model: type[Model]) -> Model:
    try:
        return model.model_validate_json(path.read_text("utf-8"))
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"]) or "the file"
        raise UsageError(
            f"{path} is broken, or of another version of arena: {place}: {fault['msg']}; --fresh "
            "moves the run aside and begins anew"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def checkpoint_of(config: TrainConfig, files: RunFiles, step: int) -> Path | None:
    """The folder with a step's weights, where ART keeps it, if it lies on this machine."""
    folder = files.art_model(config) / "checkpoints" / f"{step:04d}"
    return folder if folder.is_dir() else None
