"""A sheet: what was measured, as one HTML file with plots that opens anywhere and asks nobody.

To import it is to find out whether its packages are installed; they are imported on first use.
"""

from __future__ import annotations

from pathlib import Path

from arena.extras import require
from arena.observation import Json

require("an HTML sheet", ("jinja2", "matplotlib"), "report")


def write_html(report: dict[str, Json], path: Path) -> None:
    """Write the report of a tournament, an evaluation or an analysis.

    The same report makes the same bytes, and whoever reads `path` meanwhile sees the old file or
    the new one, whole. Raises ArenaError for a file that cannot be written or a report that cannot
    be read.
    """
    from replays.sheet.document import write_document
    from replays.sheet.page import render

    write_document(render(report), path)
