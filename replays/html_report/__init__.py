"""HTML reports: one file with charts that works offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from arena.episodes.files import open_draft
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.evaluation.document import Document


def require_report_packages() -> None:
    """Raise MissingDependency if a package that reports need is not installed."""
    require("an HTML report", ("jinja2",), "web")


def write_html(document: Document, path: Path) -> None:
    """Write a document as one HTML file. Raises MissingDependency or ArenaError."""
    require_report_packages()
    from replays.html_report.page import render

    with open_draft(path) as file:
        file.write(render(document).encode())
