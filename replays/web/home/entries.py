"""The list of evaluations, tournaments and training runs in a folder, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Literal, TypedDict

from arena.core.errors import ArenaError
from arena.core.text import pluralize, printable, shorten
from arena.evaluation.document import amount, options_in_words
from arena.evaluation.records import RESULTS, RUN
from arena.evaluation.store import Results, is_written_to
from arena.plugins.catalog import game_title
from replays.web.http_errors import HttpError
from replays.web.replay_directory import RUN_CONFIG, FileVersion, ReplayDirectory, ServedFile
from trainers.runs.records import RunFiles
from trainers.runs.training_run import TrainingRun, is_training

EntryKind = Literal["eval", "tournament", "train"]


class EntryJson(TypedDict):
    """One evaluation, tournament or training run in the list."""

    kind: EntryKind
    path: str
    """Path of its folder, relative to the served folder."""
    title: str
    facts: list[str]
    status: str
    """`running`, `finished`, `interrupted`, `unreadable`, …"""
    changed: str
    """Time of the last change, in UTC."""
    bytes: int
    opens: bool
    """True if there is a report of it."""
    error: str | None
    """Reason why it cannot be read."""


class HomeJson(TypedDict):
    """Everything in the folder but games."""

    root: str
    entries: list[EntryJson]
    """The last changed first."""
    left_out: int
    """Entries that are not listed because there are too many."""
    games: int
    unread: int
    """Replays that were found but not read yet."""


MAX_RESULTS_BYTES = 2 * 2**30
"""Bytes of all games of an evaluation or a tournament."""
MAX_RUN_BYTES = 64 * 2**20
"""Bytes of each text file of a run, at most."""
MAX_ENTRIES = 2000
"""The newest are listed."""


@dataclass(frozen=True, slots=True)
class FileSet:
    """The files of one entry, at one moment."""

    path: str
    """Name of the entry: its folder."""
    location: Path
    versions: tuple[FileVersion | None, ...]
    """They change whenever one of the files does."""

    def is_written(self) -> bool:
        """Return whether a process writes the results or the run now."""
        if (self.location / RUN_CONFIG).is_file():
            return is_training(RunFiles(self.location))
        return is_written_to(self.location)

    @property
    def changed_ns(self) -> int:
        """Time of the last change."""
        return max(version.changed_ns for version in self.versions if version)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(version.bytes for version in self.versions if version)


def find_results(directory: ReplayDirectory, name: str) -> FileSet:
    """Return the files of the evaluation or tournament in this folder. Raises HttpError."""
    return results_files(directory, directory.find_other(f"{name}/{RESULTS}" if name else RESULTS))


def results_files(directory: ReplayDirectory, file: ServedFile) -> FileSet:
    """Return the files of the evaluation or tournament whose games are `file`.

    Raises HttpError, status 422, if they are too large.
    """
    # The folder of the name, not of a link's target: `Results` refuses links.
    folder = _folder_of(directory, file)
    files = FileSet(file.name.rpartition("/")[0], folder, (file.version, _version(folder / RUN)))
    if files.bytes > MAX_RESULTS_BYTES:
        raise HttpError(422, f"{RESULTS} is larger than {MAX_RESULTS_BYTES >> 30} GiB")
    return files


def _folder_of(directory: ReplayDirectory, file: ServedFile) -> Path:
    return directory.folder.joinpath(*file.name.split("/")[:-1])


def find_run(directory: ReplayDirectory, name: str) -> FileSet:
    """Return the files of the training run in this folder.

    Raises:
        HttpError: There is no run, or one of its files is too large or leads elsewhere.
    """
    return run_files(
        directory, directory.find_other(f"{name}/{RUN_CONFIG}" if name else RUN_CONFIG)
    )


def run_files(directory: ReplayDirectory, file: ServedFile) -> FileSet:
    """Return the files of the run whose settings are `file`.

    Raises:
        HttpError: Status 404 if it is not a run: other programs write files of this name too.
            Status 422 if a file is too large, or is a link or a pipe.
    """
    # The folder of the name, not of a link's target: `TrainingRun` reads the files in it.
    folder = _folder_of(directory, file)
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


def public_message(message: str, directory: ReplayDirectory, files: FileSet) -> str:
    """Return an error's message with served names instead of paths on this machine."""
    message = message.replace(str(files.location), files.path or directory.title)
    return message.replace(f"{directory.folder}/", "")


def _version(path: Path) -> FileVersion | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return FileVersion(status.st_mtime_ns, status.st_size)


CachedEntry = tuple[FileSet, bool, EntryJson]
"""The files of an entry, whether they were written when it was read, and the entry."""


class EntryList:
    """List that is cached between requests: only changed files are read again."""

    def __init__(self, directory: ReplayDirectory) -> None:
        self._directory = directory
        self._entries: dict[str, CachedEntry] = {}
        self._lock = Lock()

    def read(self, others: Sequence[ServedFile]) -> tuple[list[EntryJson], int]:
        """Return the entries, the last changed first, and the number of those left out."""
        newest = sorted(others, key=lambda file: (-file.version.changed_ns, file.name))
        with self._lock:
            known, self._entries = self._entries, {}
            for file in newest[:MAX_ENTRIES]:
                self._add(file, known)
            entries = [entry for _, _, entry in self._entries.values()]
        entries.sort(key=lambda entry: entry["path"])
        entries.sort(key=lambda entry: entry["changed"], reverse=True)
        return entries, len(newest[MAX_ENTRIES:])

    def _add(self, file: ServedFile, known: Mapping[str, CachedEntry]) -> None:
        is_run = file.name.rpartition("/")[2] == RUN_CONFIG
        try:
            files = (run_files if is_run else results_files)(self._directory, file)
        except HttpError as error:
            # A configuration of another program is no entry; a run that cannot be read is one.
            if error.status != 404:
                files = FileSet(file.name.rpartition("/")[0], file.path, (file.version,))
                entry = _broken("train" if is_run else "eval", files, str(error))
                self._entries[file.name] = files, False, entry
            return
        cached = known.get(file.name)
        # A run that is killed changes no file, but it releases its lock.
        running = files.is_written()
        if cached is None or cached[:2] != (files, running):
            cached = files, running, (self._run if is_run else self._experiment)(files)
        self._entries[file.name] = cached

    def _experiment(self, files: FileSet) -> EntryJson:
        try:
            with Results.read(files.location) as results:
                experiment, finished = results.experiment, len(results.finished())
        except ArenaError as error:
            return _broken("eval", files, public_message(str(error), self._directory, files))
        planned = len(experiment.schedule)
        done = finished >= planned
        status = "finished" if done else "interrupted"
        if files.is_written():
            status = "running"
        settings = experiment.settings
        title = ", ".join(experiment.players)
        if experiment.kind == "eval":
            baseline = settings.get("baseline")
            title = f"{settings.get('player')}" + (f" compared with {baseline}" if baseline else "")
        count = str(finished) if done else f"{finished} of {planned}"
        facts = [
            game_title(experiment.game),
            *options_in_words(experiment.options)[:3],
            f"{count} {'game' if count == '1' else 'games'}",
        ]
        against = settings.get("against")
        if isinstance(against, list) and against:
            facts.append(f"against {', '.join(map(str, against))}")
        return _entry(experiment.kind, files, title, facts, status)

    def _run(self, files: FileSet) -> EntryJson:
        run = TrainingRun.read(files.location)
        if run.fault:
            return _broken("train", files, public_message(run.fault, self._directory, files))
        steps = run.state.phase or f"step {run.state.step} of {run.total_steps}"
        facts = [
            game_title(run.config.game) if run.config else "",
            steps,
            pluralize(run.games, "game"),
        ]
        if run.delta.value is not None:
            deals = "deals that chose the weights" if run.delta_selected else "held-out deals"
            facts.append(f"{amount(run.delta, run.scale, signed=True)} on {deals}")
        return _entry("train", files, run.name, facts, run.status)


def _broken(kind: EntryKind, files: FileSet, error: str) -> EntryJson:
    entry = _entry(kind, files, files.path, [], "unreadable")
    entry["error"], entry["opens"] = shorten(printable(error)), False
    return entry


def _entry(
    kind: EntryKind, files: FileSet, title: str, facts: Sequence[str], status: str
) -> EntryJson:
    return {
        "kind": kind,
        "path": files.path,
        "title": shorten(printable(title)) or files.path,
        "facts": [shorten(printable(fact)) for fact in facts if fact],
        "status": status,
        "changed": _time(files.changed_ns),
        "bytes": files.bytes,
        "opens": True,
        "error": None,
    }


def _time(nanoseconds: int) -> str:
    try:
        return datetime.fromtimestamp(nanoseconds // 10**9, UTC).isoformat()
    except (OverflowError, ValueError, OSError):  # Times of files may be anything.
        return ""
