"""Files of evaluations and training runs, found and checked before they are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from arena.core.errors import ArenaError
from arena.evaluation.store import RESULTS
from arena.evaluation.store.database import is_locked, log_of
from replays.web.http_errors import HttpError
from replays.web.replay_directory import RUN_CONFIG, FileVersion, ReplayDirectory, ServedFile
from trainers.runs.records import RunFiles
from trainers.runs.run_files import is_locked as is_run_locked

MAX_DATABASE_BYTES = 2 * 2**30
MAX_RUN_BYTES = 64 * 2**20
"""Of each text file of a run."""


@dataclass(frozen=True, slots=True)
class FileSet:
    """The files of one entry, at one moment."""

    path: str
    """Name of the entry: of a training run, its folder."""
    location: Path
    versions: tuple[FileVersion | None, ...]
    """They change whenever one of the files does."""

    def is_written(self) -> bool:
        """Return whether a process writes the results or the run now."""
        if self.location.is_dir():
            return is_run_locked(RunFiles(self.location))
        return self.location.name == RESULTS and is_locked(self.location)

    @property
    def changed_ns(self) -> int:
        """Time of the last change."""
        return max(version.changed_ns for version in self.versions if version)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(version.bytes for version in self.versions if version)


def find_results(directory: ReplayDirectory, name: str) -> FileSet:
    """Return the results database with this name. Raises HttpError if there is none."""
    if name.rpartition("/")[2] != RESULTS:
        raise HttpError(404, "there is no such results database here")
    return results_files(directory.find_other(name))


def results_files(file: ServedFile) -> FileSet:
    """Return a results database with its write-ahead log, which holds the last games of a run."""
    log = _version(log_of(file.path))
    return FileSet(file.name, file.path, (file.version, log))


def find_run(directory: ReplayDirectory, name: str) -> FileSet:
    """Return the files of the training run in this folder.

    Raises:
        HttpError: There is no run, or one of its files is too large or leads elsewhere.
    """
    file = directory.find_other(f"{name}/{RUN_CONFIG}" if name else RUN_CONFIG)
    return run_files(directory, file)


def run_files(directory: ReplayDirectory, file: ServedFile) -> FileSet:
    """Return the files of the run whose settings are `file`.

    Raises:
        HttpError: Status 404 if it is not a run: other programs write files of this name too.
            Status 422 if a file is too large, or is a link or a pipe.
    """
    # The folder of the name, not of a link's target: `TrainingRun` reads the files in it.
    folder = directory.folder.joinpath(*file.name.split("/")[:-1])
    files = RunFiles(folder)
    versions = []
    for path in (files.config, files.metrics, files.state):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise HttpError(422, f"{path.name} of this run is a link or not a file")
        version = _version(path)
        if version and version.bytes > MAX_RUN_BYTES:
            limit = f"{MAX_RUN_BYTES / 2**20:.0f} MiB"
            raise HttpError(422, f"{path.name} of this run is larger than {limit}")
        versions.append(version)
    if versions[1:] == [None, None]:
        raise HttpError(404, "there is no such training run here")
    return FileSet(file.name.rpartition("/")[0], folder, tuple(versions))


def public_message(error: ArenaError, directory: ReplayDirectory, files: FileSet) -> str:
    """Return an error's message with served names instead of paths on this machine."""
    message = str(error).replace(str(files.location), files.path or directory.title)
    return message.replace(f"{directory.folder}/", "")


def _version(path: Path) -> FileVersion | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return FileVersion(status.st_mtime_ns, status.st_size)
