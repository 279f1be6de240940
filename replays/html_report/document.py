"""What all sheets have in common: the templates' environment, and how a file is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from arena.core.errors import ArenaError
from arena.core.json import Json
from arena.episodes.files import write_whole
from replays.html_report import formatting as wording


def environment(finalize: Callable[[Json], Json] | None = None) -> Environment:
    """Templates of this folder, escaped; `finalize` sees all that stands on the page."""
    made = Environment(
        loader=PackageLoader("replays.html_report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=finalize,
    )
    filters: dict[str, Callable[..., Any]] = {
        "number": wording.number,
        "value": wording.value_of,
        "interval": wording.interval_of,
        "points": wording.points,
        "plain": wording.plain,
        "rank": wording.rank_of,
        "shorten": wording.shorten,
    }
    made.filters.update(filters)
    return made


def write_document(page: str, path: Path) -> None:
    """Whoever reads `path` meanwhile sees the old file or the new one, whole. Raises ArenaError."""
    try:
        write_whole(path, page)
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error
