"""Which files are served: the replays below one folder, or one replay alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from arena.errors import UsageError
from replays.web.refusals import Refused, not_found

RUNNING = ".part"
"""Ends the name of a replay while its game is running."""
SUFFIXES = (".jsonl", f".jsonl{RUNNING}")
LONGEST_NAME = 4096


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


class Root:
    """Decides about every file that is opened; names come from outside and are not trusted."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError where there is neither a folder nor a file."""
        try:
            found = path.resolve(strict=True)
        except (OSError, RuntimeError):  # The latter for symbolic links in a circle.
            raise UsageError(f"{path}: there is no such file or folder") from None
        self.only = None if found.is_dir() else found.name
        self.folder = found if found.is_dir() else found.parent

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
        return ReplayFile(name, path, Stamp(about.st_mtime_ns, about.st_size))

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
    except OSError:
        return None
    stamp = Stamp(about.st_mtime_ns, about.st_size)
    return ReplayFile(name, Path(entry.path), stamp) if S_ISREG(about.st_mode) else None


def is_plain(name: str) -> bool:
    """Whether a name leads downwards only, through nothing hidden, and means the same anywhere."""
    parts = name.split("/")
    return (
        len(name) <= LONGEST_NAME
        and name.isprintable()
        and "\\" not in name
        and not any(part == "" or part.startswith(".") for part in parts)
    )
