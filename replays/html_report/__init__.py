"""HTML reports: one file with charts that works offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from arena.core.errors import ArenaError
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
    # Here because `arena report` loads this module also when it writes no file.
    from arena.episodes.files import write_whole

    try:
        write_whole(path, page)
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error
