"""Common parts of all HTML reports: the template environment, and writing the file."""

from __future__ import annotations

from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from arena.core.errors import ArenaError
from arena.core.text import printable, shorten
from arena.core.views.number_text import decimal
from arena.episodes.files import write_whole
from arena.evaluation.output import formatting

REPORTS = "replays.html_report"


def environment(package: str = REPORTS) -> Environment:
    """Return an environment for the templates of a package and of this one.

    Every text that a page shows is escaped, and control characters, which HTML does not allow and
    which may change the reading direction, are replaced.
    """
    page = Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in (package, REPORTS)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    page.filters |= {
        "number": decimal,
        "value": formatting.value_text,
        "interval": formatting.interval_text,
        "points": formatting.points_text,
        "plain": formatting.json_text,
        "p": formatting.p_text,
        "rank": formatting.rank_text,
        "percent_range": formatting.percent_range,
        "shorten": shorten,
    }
    return page


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def write_document(page: str, path: Path) -> None:
    """Write the file. A reader meanwhile sees the old file or the new one, complete.

    Raises ArenaError if it cannot be written.
    """
    try:
        write_whole(path, page)
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error
