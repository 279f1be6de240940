"""Files that are served: those of one folder and its subfolders, or one replay.

Replays are found by their suffix. Other files of interest (results of evaluations, settings of
training runs) are found by the same walk.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from arena.episodes.files import check_exists, is_written
from arena.evaluation.records import RESULTS
from arena.evaluation.store import is_run
from replays.web.http_errors import HttpError, not_found

RUNNING_SUFFIX = ".part"
"""End of the file name while the game is running."""
SUFFIXES = (".jsonl", f".jsonl{RUNNING_SUFFIX}")
RUN_CONFIG = "config.json"
"""Name of the file that marks the folder of a training run."""
OTHER_SUFFIXES = (f"/{RESULTS}", f"/{RUN_CONFIG}")
"""Ends of `/NAME` of files that are not replays but are shown as well."""
MAX_NAME_LENGTH = 4096
IDLE_SECONDS = 600
"""Time without a move after which a game counts as interrupted."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Modification time and size; they change whenever the file does."""

    changed_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file that may be served."""

    name: str
    """Path relative to the served folder, with slashes."""
    path: Path
    version: FileVersion
    inode: str
    """Device and inode number, which stay the same when the file is renamed."""

    @property
    def key(self) -> str:
        """Identifier for a seat's perspective, because file names may contain the seed.

        It is not derived from the name: a search over names could recover the seed.
        """
        # 16 hexadecimal digits (64 bits) are enough to avoid collisions in one folder.
        return hashlib.sha256(self.inode.encode()).hexdigest()[:16]

    def is_running(self) -> bool:
        """Return True while the file is being written.

        The writer holds a lock; on systems without locks, the age of the file decides.
        """
        if not self.name.endswith(RUNNING_SUFFIX):
            return False
        written = is_written(self.path)
        if written is not None:
            return written
        age = time.time() - self.version.changed_ns / 1e9
        return age < IDLE_SECONDS


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Result of one walk through the folder."""

    replays: list[ServedFile]
    """The most recently changed first."""
    others: list[ServedFile]


class ReplayDirectory:
    """Resolves requested names to files. Names come from requests and are not trusted."""

    def __init__(self, path: Path) -> None:
        """Open a folder or a file.

        Raises:
            UsageError: The path does not exist.
        """
        check_exists(path)
        resolved = path.resolve()
        self.typed_path = path
        """The path as the user typed it, relative to the folder where the server was started."""
        self.single_file = None if resolved.is_dir() else resolved.name
        """Name of the replay if one file is served, else None."""
        self.folder = resolved if resolved.is_dir() else resolved.parent
        self._names_by_key: dict[str, str] = {}

    @property
    def title(self) -> str:
        """Name of the folder or file on the page."""
        return self.single_file or self.folder.name or str(self.folder)

    def find(self, name: str) -> ServedFile:
        """Return the replay with this name; a finished game is also found by its running name.

        Raises:
            HttpError: There is no such replay, or it may not be served.
        """
        # The suffix of a running game is removed when the game ends.
        for current in dict.fromkeys((name, name.removesuffix(RUNNING_SUFFIX))):
            file = self._open(current) if self._is_served(current) else None
            if file:
                return file
        raise not_found()

    def find_by(self, path: str | None, key: str | None) -> ServedFile:
        """Return the replay with this key or, without a key, with this name. Raises HttpError."""
        return self.find(path or "") if key is None else self.find_key(key)

    def find_other(self, name: str) -> ServedFile:
        """Return the games of an evaluation or the settings of a training run.

        Raises:
            HttpError: There is no such file, or it may not be served.
        """
        wanted = self.single_file is None and f"/{name}".endswith(OTHER_SUFFIXES)
        file = self._open(name) if wanted and is_plain(name) else None
        if file is None:
            raise HttpError(404, "there is no such file here")
        return file

    def find_key(self, key: str) -> ServedFile:
        """Return the replay with this key.

        Raises:
            HttpError: There is no such replay.
        """
        # The file of a cached name may have been renamed or replaced.
        with suppress(KeyError, HttpError):
            file = self.find(self._names_by_key[key])
            if file.key == key:
                return file
        for file in self.scan().replays:
            if file.key == key:
                self._names_by_key[key] = file.name
                return file
        raise not_found()

    def scan(self) -> FoundFiles:
        """Walk through the folder once."""
        if self.single_file:
            try:
                return FoundFiles([self.find(self.single_file)], [])
            except HttpError:
                return FoundFiles([], [])
        found = FoundFiles([], [])
        for file in self._files_below(self.folder, ""):
            is_replay = file.name.endswith(SUFFIXES) and not _is_run(file)
            (found.replays if is_replay else found.others).append(file)
        found.replays.sort(key=lambda file: (-file.version.changed_ns, file.name))
        return found

    def _is_served(self, name: str) -> bool:
        if self.single_file:
            return name in (self.single_file, self.single_file.removesuffix(RUNNING_SUFFIX))
        return name.endswith(SUFFIXES) and is_plain(name)

    def _open(self, name: str) -> ServedFile | None:
        try:
            # Resolving first and checking afterwards covers "..", links and absolute names.
            path = self.folder.joinpath(*name.split("/")).resolve(strict=True)
            status = path.stat()
        except (OSError, ValueError, RuntimeError):  # NUL, invalid UTF-8; circles of links.
            return None
        # A symbolic link may lead out of the folder, and opening a pipe would block.
        if not path.is_relative_to(self.folder) or not S_ISREG(status.st_mode):
            return None
        return _served_file(name, path, status)

    def _files_below(self, folder: Path, prefix: str) -> Iterator[ServedFile]:
        """Yield the files below a folder; symbolic links to folders are not followed."""
        try:
            entries = list(os.scandir(folder))
        except OSError:  # No permission, or removed in the meantime.
            return
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith("."):
                    yield from self._files_below(Path(entry.path), f"{name}/")
            elif _is_shown(entry.name) and is_plain(name):
                file = self._open(name) if entry.is_symlink() else _scanned_file(entry, name)
                if file:
                    yield file


def _is_run(file: ServedFile) -> bool:
    """Return True for the games of an evaluation, which are no replay."""
    return f"/{file.name}".endswith(f"/{RESULTS}") and is_run(file.path.parent)


def _is_shown(name: str) -> bool:
    """Return True for the name of a replay or of another file that is shown."""
    return name.endswith(SUFFIXES) or f"/{name}".endswith(OTHER_SUFFIXES)


def _scanned_file(entry: os.DirEntry[str], name: str) -> ServedFile | None:
    """Return the file without resolving its path again: a folder may hold thousands."""
    try:
        status = entry.stat(follow_symlinks=False)
        if not status.st_ino:  # On Windows, scanning a folder does not return the inode.
            status = Path(entry.path).lstat()
    except OSError:
        return None
    return _served_file(name, Path(entry.path), status) if S_ISREG(status.st_mode) else None


def _served_file(name: str, path: Path, status: os.stat_result) -> ServedFile:
    version = FileVersion(status.st_mtime_ns, status.st_size)
    return ServedFile(name, path, version, f"{status.st_dev}/{status.st_ino}")


def is_plain(name: str) -> bool:
    """Return True if the name leads downwards only, contains no hidden part and is unambiguous."""
    parts = name.split("/")
    return (
        len(name) <= MAX_NAME_LENGTH
        and name.isprintable()
        and "\\" not in name
        and not any(part == "" or part.startswith(".") for part in parts)
    )
