"""Files of the page: plain text, fixed at installation."""

from __future__ import annotations

from pathlib import Path

from arena.core.errors import UsageError
from arena.plugins.loader import catalog

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, Path]:
    """Return the files by name. Requests select from these, so they never form a path."""
    return {path.name: path for path in FOLDER.iterdir() if path.suffix in CONTENT_TYPES}


def scene_file(game: str) -> Path:
    """Return the ES module that draws a game's table.

    Raises:
        UsageError: The game has no such module.
    """
    if game not in catalog().names("scene"):
        raise UsageError(f"game '{game}' has no module that draws its table")
    return Path(catalog().load("scene", game).module)
