"""Files of the page: plain text, fixed at installation."""

from __future__ import annotations

from pathlib import Path

from arena.plugins.views import scene_factory

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


def scene_file(name: str) -> Path:
    """Return the ES module of a scene. Raises UsageError for an unknown name."""
    return Path(scene_factory(name).module)
