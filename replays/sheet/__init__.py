"""A sheet: what was measured, as one HTML file with plots that opens anywhere and asks nobody.

To import it is to find out whether its packages are installed; they are imported on first use.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from arena.errors import ArenaError
from arena.extras import require
from arena.observation import Json

require("an HTML sheet", ("jinja2", "matplotlib"), "report")


def write_html(report: dict[str, Json], path: Path) -> None:
    """Write the report of a tournament, an evaluation or an analysis.

    The same report makes the same bytes, and whoever reads `path` meanwhile sees the old file or
    the new one, whole. Raises ArenaError for a file that cannot be written or a report that cannot
    be read.
    """
    from replays.sheet.page import render

    page = render(report)
    partial = path.parent / f"{path.name}.partial"
    try:
        partial.write_text(page, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error
