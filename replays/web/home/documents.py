"""Documents of the home page, as the server sends them.

A view is made of blocks of text, tables and charts, so that one module of the page draws all views.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypedDict

from markupsafe import Markup

from arena.evaluation.formatting import Grid
from replays.html_report.charts import ChartLayer

EntryKind = Literal["eval", "tournament", "train"]
MAX_TABLE_ROWS = 2000
"""Rows of one table; a damaged or hostile file may ask for millions."""


class EntryJson(TypedDict):
    """One evaluation, tournament or training run in the list."""

    kind: EntryKind
    path: str
    """Of its file; of a training run, its folder. Relative to the served folder."""
    title: str
    facts: list[str]
    status: str
    """`running`, `finished`, `interrupted`, `unreadable`, …"""
    changed: str
    """Time of the last change, in UTC."""
    bytes: int
    opens: bool
    """Whether there is a view of it."""
    error: str | None
    """Reason why it cannot be read."""


class HomeJson(TypedDict):
    """Everything in the folder but games."""

    root: str
    entries: list[EntryJson]
    """The last changed first."""
    left_out: int
    """Entries that are not listed because there are too many."""
    games: int
    unread: int
    """Replays that were found but not read yet."""


class TableJson(TypedDict):
    """A table of text. The first column names the row."""

    title: str
    headings: list[str]
    rows: list[list[str]]


class LegendItemJson(TypedDict):
    """Name of a line or a layer in a chart."""

    name: str
    color: int


class ChartJson(TypedDict):
    """A chart with its caption."""

    title: str
    about: str
    svg: str
    """A picture of paths and text, drawn by `replays.html_report.charts`."""
    legend: list[LegendItemJson]


class SectionJson(TypedDict):
    """A heading with charts and tables."""

    title: str
    about: str
    charts: list[ChartJson]
    small: bool
    """True if three charts are in a row."""
    tables: list[TableJson]


class ViewJson(TypedDict):
    """The view of an evaluation, a tournament, a training run or a comparison."""

    title: str
    facts: list[str]
    verdict: list[str]
    """Sentences; the first one is the answer."""
    notes: list[str]
    sections: list[SectionJson]
    running: bool
    report: str | None
    """Path of the request for the full report; None if there is none."""
    games: str | None
    """Folder of its games, relative to the served folder."""


def table(grid: Grid) -> TableJson:
    """Return a table of text."""
    rows = [list(row) for row in grid.rows[:MAX_TABLE_ROWS]]
    return {"title": grid.title, "headings": list(grid.headings), "rows": rows}


def chart(title: str, about: str, svg: Markup, legend: Iterable[ChartLayer] = ()) -> ChartJson:
    """Return a chart with its caption."""
    return {
        "title": title,
        "about": about,
        "svg": str(svg),
        "legend": [{"name": layer.name, "color": layer.color} for layer in legend],
    }


def section(
    title: str,
    about: str = "",
    charts: Sequence[ChartJson] = (),
    tables: Iterable[Grid] = (),
    small: bool = False,
) -> SectionJson:
    """Return a section; three small charts are in a row."""
    return {
        "title": title,
        "about": about,
        "charts": list(charts),
        "small": small,
        "tables": [table(grid) for grid in tables],
    }
