"""Files that other processes read while they are written, or that must survive a crash."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from arena.core.errors import ArenaError

if TYPE_CHECKING:
    from arena.core.game import Game

if sys.platform != "win32":
    import fcntl


def write_whole(path: Path, text: str) -> None:
    """Replace a file atomically: a reader finds the old text or the new one, never a part.

    Raises OSError and then leaves the old file unchanged.
    """
    # In the same folder: a rename is atomic only within one file system.
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            # The data must be on disk before the name is, or a crash could leave an empty file.
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


@contextmanager
def open_draft(path: Path) -> Iterator[BinaryIO]:
    """Open a draft that replaces `path` if no error occurs, and is deleted otherwise.

    Raises ArenaError if it cannot be written, and then leaves an older file unchanged.
    """
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            draft.unlink()


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


def game_stem(game: Game, seed: int) -> str:
    """Return the name of a file about this game: `cluedo-cards-3p-seed7`."""
    variant = getattr(game.options, "variant", None)
    # The name of a family's game has a slash, which would be a folder.
    parts = [game.name.replace("/", "-"), variant, f"{game.num_players}p", f"seed{seed}"]
    return "-".join(part for part in parts if part)
