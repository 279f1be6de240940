"""The files that make up the page; plain text, fixed when arena is installed."""

from __future__ import annotations

from pathlib import Path

from arena.core.errors import UsageError
from arena.plugins.loader import catalog

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, Path]:
    """By name. Whoever asks for a file chooses from these, so that no path is made of a request."""
    return {path.name: path for path in FOLDER.iterdir() if path.suffix in TYPES}


def scene_file(game: str) -> Path:
    """The ES module that draws a game's table. Raises UsageError if the game has none."""
    if game not in catalog().names("scene"):
        raise UsageError(f"no module draws the table of '{game}'")
    return Path(catalog().load("scene", game).module)
