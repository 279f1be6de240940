"""Names of new files and folders."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from arena.core.errors import UsageError

if TYPE_CHECKING:
    from arena.core.game import Game


def game_stem(game: Game, seed: int) -> str:
    """Return the name of a file about this game: `cluedo-cards-3p-seed7`."""
    variant = getattr(game.options, "variant", None)
    # The name of a family's game has a slash, which would be a folder.
    parts = [game.name.replace("/", "-"), variant, f"{game.num_players}p", f"seed{seed}"]
    return "-".join(part for part in parts if part)


def unused_path(folder: Path, stem: str, suffix: str = "") -> Path:
    """Return the first of STEM, STEM-2, STEM-3, … that does not exist in the folder."""
    stems = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(p for each in stems if not (p := folder / f"{each}{suffix}").exists())


def check_file(flag: str, path: Path) -> None:
    """Raise UsageError if no file can be created at this path."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{flag} {path}: no file can be written there")
