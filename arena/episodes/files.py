"""Files of games: replays that are written during the game, and files that replace others whole.

Other processes may read them while they are written, and they survive a crash. What one process
writes to at a time has a lock, which the kernel releases if the process is killed. Where files
cannot be locked, as on some network file systems, a marker with process and machine stands for the
lock; one that a killed process has left is removed by the next one on the same machine.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedWriter, FileIO
from itertools import count
from pathlib import Path
from stat import S_ISREG
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from filelock import FileLock, SoftFileLock
from pydantic import JsonValue

from arena.core.action import CHANCE
from arena.core.errors import ArenaError, UsageError
from arena.core.event import Outcome, Ply
from arena.core.game import State
from arena.core.spec import has_programs
from arena.episodes.record import Episode, Header, OutcomeLine, dump, turns_played

if TYPE_CHECKING:
    from arena.core.game import Game


if sys.platform != "win32":
    import fcntl

PATIENCE = 0.2
"""Seconds for which a lock that is only looked at (`is_locked`) may be held."""
UNSUPPORTED = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))
"""Errors of file systems that cannot lock files."""


def write_whole(path: Path, text: str) -> None:
    """Replace a file atomically: a reader finds the old text or the new one, never a part.

    Raises OSError and then leaves the old file unchanged.
    """
    with _draft_of(path) as file:
        file.write(text.encode())


@contextmanager
def open_draft(path: Path) -> Iterator[BinaryIO]:
    """Open a draft that replaces `path` if no error occurs, and is deleted otherwise.

    Raises ArenaError if it cannot be written, and then leaves an older file unchanged.
    """
    with writing(path), _draft_of(path) as file:
        yield file


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a lack of space or of rights into an ArenaError that names the path."""
    try:
        yield
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def _draft_of(path: Path) -> Iterator[BinaryIO]:
    # In the same folder: a rename is atomic only within one file system.
    draft = path.with_name(f".{path.name}.part")
    try:
        with BufferedWriter(open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)) as file:
            yield file
            file.flush()
            # The data must be on disk before the name is, or a crash could leave an empty file.
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink()


def check_exists(path: Path) -> None:
    """Raise UsageError for a path of the command line that names nothing."""
    if not path.exists():
        raise UsageError(f"{path}: there is no such file or folder")


def open_regular(path: Path, flags: int = os.O_RDONLY) -> FileIO:
    """Open a file that may come from an unknown source. Raises OSError, as for a pipe or a link.

    A link could lead out of its folder, and opening a pipe would wait for ever.
    """
    if path.is_symlink():
        raise OSError(errno.EINVAL, "it is a link", str(path))
    safe = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    descriptor = os.open(path, flags | safe, 0o666)
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return FileIO(descriptor, "wb" if flags & os.O_WRONLY else "rb")


def mark_as_written(file: IO[Any]) -> None:
    """Lock the file, so that `is_written` is True until it is closed or its process ends."""
    if sys.platform != "win32":
        with suppress(OSError):  # Not every file system has locks.
            fcntl.flock(file, fcntl.LOCK_EX)


def is_written(path: Path) -> bool | None:
    """Return whether a process is writing this file; None where locks are not available."""
    if sys.platform == "win32":
        return None
    try:
        with path.open("rb") as file:
            # A shared lock: readers do not exclude each other.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock, whose file remains. Raises filelock's Timeout if another process holds it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(path, timeout=PATIENCE, fallback_to_soft=False))
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            stack.enter_context(SoftFileLock(_marker(path), timeout=PATIENCE))
        yield


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock. The lock itself is not taken."""
    return _marker(path).is_file() or (path.is_file() and bool(is_written(path)))


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.held")


def game_stem(game: Game, seed: int) -> str:
    """Return the name of a file about this game: `cluedo-cards-3p-seed7`."""
    variant = getattr(game.options, "variant", None)
    # The name of a family's game has a slash, which would be a folder.
    parts = [game.name.replace("/", "-"), variant, f"{game.num_players}p", f"seed{seed}"]
    return "-".join(part for part in parts if part)


class ReplayWriter:
    """Watcher that writes a replay line by line, flushed after each ply.

    The file is `NAME.jsonl.part` until the outcome is written, then `NAME.jsonl`; `path` is its
    present name. An existing file is never overwritten: the name gets a number.
    """

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder = folder
        self._stem = stem
        # Equal names mean that the file is finished or was never opened, see `unfinished`.
        self._final = self.path = folder / f"{stem}.jsonl"
        self._file: IO[str] | None = None
        self._turns = self._decisions = 0
        self._max_turns: int | None = None
        self._held: list[str] | None = None
        """Lines that are written at the end; None if each is written at once."""

    def begin(self, header: Header, state: State) -> None:
        self._max_turns = header.max_turns
        with writing(self.path):
            self._claim()
        self._write([header.to_json()])
        # A program that plays may read files: hidden cards are in none until its game is over.
        self._held = [] if has_programs(header.players) else None

    def ply(self, ply: Ply, state: State) -> None:
        self._turns = turns_played(state, self._max_turns)
        self._decisions += ply.player != CHANCE
        self._write(ply.lines())

    def end(self, outcome: Outcome) -> None:
        line = OutcomeLine.of(outcome, self._turns, self._decisions)
        self._release()
        self._write([line.to_json()])
        self.close()
        with writing(self._final):
            self.path = self.path.rename(self._final)

    def copy(self, replay: str) -> None:
        """Write a finished replay whole. Raises ArenaError."""
        with writing(self._final):
            self._claim()
            assert self._file is not None
            self._file.write(replay)
            self._file.close()
            self.path = self.path.rename(self._final)

    def _claim(self) -> None:
        """Open the first free name of `stem.jsonl`, `stem-2.jsonl`, …"""
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            name = self._stem if number == 1 else f"{self._stem}-{number}"
            self._final = self._folder / f"{name}.jsonl"
            self.path = self._folder / f"{name}.jsonl.part"
            with suppress(FileExistsError):
                self._file = self.path.open("x", encoding="utf-8")
                mark_as_written(self._file)
                # Mode "x" is atomic, so of several processes one gets the name. The finished file
                # of that name is checked after that: no other writer of the name can finish it now.
                if not self._final.exists():
                    return
                self.close()
                self.path.unlink()

    @property
    def unfinished(self) -> bool:
        """True if a part of the game was written, but not its outcome."""
        return self.path != self._final and self.path.exists()

    def close(self) -> None:
        if self._file:
            # What a full disk refused has been reported already.
            with suppress(OSError, ArenaError), self._file:
                self._release()
            self._file = None

    def _write(self, lines: Iterator[dict[str, JsonValue]] | list[dict[str, JsonValue]]) -> None:
        # All lines of a ply in one write, so that a reader rarely sees a part of one.
        text = "".join(map(dump, lines))
        if self._held is None:
            self._write_text(text)
        else:
            self._held.append(text)

    def _release(self) -> None:
        """Write the lines that were held back."""
        held, self._held = self._held, None
        if held:
            self._write_text("".join(held))

    def _write_text(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            raise ArenaError(
                f"cannot write {self.path}: {error.strerror}; what was written so far is kept"
            ) from error


@dataclass(frozen=True, slots=True)
class ReplayFile:
    """Place of the replay of a job: `FOLDER/STEM.jsonl`."""

    folder: Path
    stem: str
    numbered: bool = False
    """Keep a file that has the name, and add a number to the name of the new one. False: a file of
    the same job, which an earlier run has left, is replaced."""

    def writer(self) -> ReplayWriter:
        """Return the watcher that writes the file during the game. Raises ArenaError."""
        if not self.numbered:
            for name in (f"{self.stem}.jsonl", f"{self.stem}.jsonl.part"):
                stale = self.folder / name
                with writing(stale), suppress(FileNotFoundError):
                    stale.unlink()
        return ReplayWriter(self.folder, self.stem)

    def write(self, replay: str) -> Path:
        """Write the text of a finished replay; return the path. Raises ArenaError."""
        writer = self.writer()
        writer.copy(replay)
        return writer.path


def replay_text(episode: Episode) -> str:
    """Return the replay of a finished game, with the bytes that a `ReplayWriter` would write."""
    line = OutcomeLine.of(episode.outcome, episode.turns, episode.decisions)
    plies = (line for ply in episode.plies for line in ply.lines())
    return "".join(map(dump, (episode.header.to_json(), *plies, line.to_json())))


def sha256(path: Path) -> str:
    """Return the hash of a file's bytes as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
