"""Names of new files and folders."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path

from arena.core.errors import UsageError


def unused_path(folder: Path, stem: str, suffix: str = "") -> Path:
    """Return the first of STEM, STEM-2, STEM-3, … that does not exist in the folder."""
    stems = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(p for each in stems if not (p := folder / f"{each}{suffix}").exists())


def check_file(flag: str, path: Path) -> None:
    """Raise UsageError if no file can be created at this path."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{flag} {path}: no file can be written there")
