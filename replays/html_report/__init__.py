"""HTML reports: one file with charts that works offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from arena.episodes.files import open_draft
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.evaluation.report import Report


def require_report_packages() -> None:
    """Raise MissingDependency if a package that reports need is not installed."""
    require("an HTML report", ("jinja2",), "web")


def write_html(report: Report, path: Path) -> None:
    """Write the report of a tournament, an evaluation or an analysis as one HTML file.

    Equal reports give equal bytes. The file is replaced as a whole.

    Raises:
        MissingDependency: If jinja2 is not installed.
        ArenaError: If the file cannot be written.
    """
    require_report_packages()
    from replays.html_report.page import render

    write_document(render(report), path)


def write_document(page: str, path: Path) -> None:
    """Write the file. A reader meanwhile sees the old file or the new one, complete.

    Raises ArenaError if it cannot be written.
    """
    with open_draft(path) as file:
        file.write(page.encode())
