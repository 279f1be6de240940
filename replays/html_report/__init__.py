"""HTML reports: one file with plots that opens offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from arena.core.json import Json
from arena.plugins.extras import require


def require_report_packages() -> None:
    """Raise MissingDependency if a package that reports need is not installed."""
    require("an HTML report", ("jinja2", "matplotlib"), "report")


def write_html(report: Mapping[str, Json], path: Path) -> None:
    """Write the report of a tournament, an evaluation or an analysis.

    The same report makes the same bytes, and whoever reads `path` meanwhile sees the old file or
    the new one, whole. Raises ArenaError for a file that cannot be written or a report that cannot
    be read.
    """
    require_report_packages()
    from replays.html_report.document import write_document
    from replays.html_report.page import render

    write_document(render(report), path)
