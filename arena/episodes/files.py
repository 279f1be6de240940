"""Writing files that others read, or that must survive a crash."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

if sys.platform != "win32":
    import fcntl


def write_whole(path: Path, text: str) -> None:
    """Replace the file at once: whoever reads it finds the old text or the new one, never a part.

    Raises OSError, and leaves the old file and no draft.
    """
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def mark_as_written(file: IO[Any]) -> None:
    """Until it is closed, however its process ends, `is_written` says that somebody writes it."""
    if sys.platform != "win32":
        with suppress(OSError):  # Not every file system has locks.
            fcntl.flock(file, fcntl.LOCK_EX)


def is_written(path: Path) -> bool | None:
    """Whether somebody writes this file; None if that cannot be known here."""
    if sys.platform == "win32":
        return None
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # Readers hinder nobody but a writer.
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
