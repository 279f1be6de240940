"""Which files are served: the replays below one folder, or one replay alone."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from arena.core.errors import UsageError
from arena.episodes.files import is_written
from replays.web.http_errors import Refused, not_found

RUNNING = ".part"
"""Ends the name of a replay while its game is running."""
SUFFIXES = (".jsonl", f".jsonl{RUNNING}")
LONGEST_NAME = 4096
PATIENCE = 600
"""Seconds without a move after which a game is taken for one that was cut off."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Changes whenever the file does."""

    changed_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ReplayFile:
    """A file that may be served."""

    name: str
    """Relative to the root, with slashes."""
    path: Path
    stamp: Stamp
    number: str
    """What the file system knows it by, whatever it is called."""

    @property
    def key(self) -> str:
        """Stands for the file where its name would tell too much: names hold seeds.

        No hash of the name either: from that a search would find the seed.
        """
        return hashlib.sha256(self.number.encode()).hexdigest()[:16]

    def is_running(self) -> bool:
        """Whether more is written to it: it is locked, or where there are no locks, it is young."""
        if not self.name.endswith(RUNNING):
            return False
        written = is_written(self.path)
        if written is not None:
            return written
        age = time.time() - self.stamp.changed_ns / 1e9
        return age < PATIENCE


class Root:
    """Decides about every file that is opened; names come from outside and are not trusted."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError where there is neither a folder nor a file."""
        try:
            found = path.resolve(strict=True)
        except (OSError, RuntimeError):  # The latter for symbolic links in a circle.
            raise UsageError(f"{path}: there is no such file or folder") from None
        self.given = path
        """As the user calls it, in the folder in which the server was started."""
        self.only = None if found.is_dir() else found.name
        self.folder = found if found.is_dir() else found.parent
        self._names: dict[str, str] = {}
        """Of files that were asked for by their keys."""

    @property
    def title(self) -> str:
        """What the page calls it."""
        return self.only or self.folder.name or str(self.folder)

    def find(self, name: str) -> ReplayFile:
        """The replay of that name; of a game that has ended meanwhile, what it is called now.

        Raises Refused, in the same words whether it is not there or may not be seen.
        """
        for current in dict.fromkeys((name, name.removesuffix(RUNNING))):
            file = self._look(current) if self._is_offered(current) else None
            if file:
                return file
        raise not_found()

    def find_key(self, key: str) -> ReplayFile:
        """The replay with that key. Raises Refused if there is none."""
        with suppress(KeyError, Refused):
            file = self.find(self._names[key])
            if file.key == key:
                return file
        for file in self.files():
            if file.key == key:
                self._names[key] = file.name
                return file
        raise not_found()

    def files(self) -> list[ReplayFile]:
        """Every replay here, the last changed first."""
        if self.only:
            try:
                return [self.find(self.only)]
            except Refused:
                return []
        found = self._below(self.folder, "")
        return sorted(found, key=lambda file: (-file.stamp.changed_ns, file.name))

    def _is_offered(self, name: str) -> bool:
        if self.only:
            return name in (self.only, self.only.removesuffix(RUNNING))
        return name.endswith(SUFFIXES) and is_plain(name)

    def _look(self, name: str) -> ReplayFile | None:
        try:
            path = self.folder.joinpath(*name.split("/")).resolve(strict=True)
            about = path.stat()
        except (OSError, ValueError, RuntimeError):  # NUL, no UTF-8; links in a circle.
            return None
        # A symbolic link may lead anywhere, and opening a pipe would wait for its writer.
        if not path.is_relative_to(self.folder) or not S_ISREG(about.st_mode):
            return None
        return _replay_file(name, path, about)

    def _below(self, folder: Path, prefix: str) -> Iterator[ReplayFile]:
        """Folders that are symbolic links are passed over: they may lead in a circle."""
        try:
            entries = list(os.scandir(folder))
        except OSError:  # Not ours to read, or gone.
            return
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith("."):
                    yield from self._below(Path(entry.path), f"{name}/")
            elif name.endswith(SUFFIXES) and is_plain(name):
                file = self._look(name) if entry.is_symlink() else _plain_file(entry, name)
                if file:
                    yield file


def _plain_file(entry: os.DirEntry[str], name: str) -> ReplayFile | None:
    """Without following a path a second time: a folder may hold thousands."""
    try:
        about = entry.stat(follow_symlinks=False)
        if not about.st_ino:  # On Windows, where a folder's listing does not say it.
            about = Path(entry.path).lstat()
    except OSError:
        return None
    return _replay_file(name, Path(entry.path), about) if S_ISREG(about.st_mode) else None


def _replay_file(name: str, path: Path, about: os.stat_result) -> ReplayFile:
    stamp = Stamp(about.st_mtime_ns, about.st_size)
    return ReplayFile(name, path, stamp, f"{about.st_dev}/{about.st_ino}")


def is_plain(name: str) -> bool:
    """Whether a name leads downwards only, through nothing hidden, and means the same anywhere."""
    parts = name.split("/")
    return (
        len(name) <= LONGEST_NAME
        and name.isprintable()
        and "\\" not in name
        and not any(part == "" or part.startswith(".") for part in parts)
    )
