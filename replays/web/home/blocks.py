"""Blocks of the views: tables, charts and sections as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from arena.evaluation.output.grid import Grid
from replays.html_report.charts import ChartLayer
from replays.web.home.documents import ChartJson, SectionJson, TableJson

MAX_TABLE_ROWS = 2000
"""Rows of one table; a damaged or hostile file may ask for millions."""


def table(grid: Grid) -> TableJson:
    """Return a table of text."""
    rows = [list(row) for row in grid.rows[:MAX_TABLE_ROWS]]
    return {"title": grid.title, "headings": list(grid.headings), "rows": rows}


def chart(title: str, about: str, svg: Markup, legend: Iterable[ChartLayer] = ()) -> ChartJson:
    """Return a chart with its caption."""
    named: ChartJson = {
        "title": title,
        "about": about,
        "svg": str(svg),
        "legend": [{"name": layer.name, "color": layer.color} for layer in legend],
    }
    return named


def section(
    title: str,
    about: str = "",
    charts: Sequence[ChartJson] = (),
    tables: Iterable[Grid] = (),
    small: bool = False,
) -> SectionJson:
    """Return a section; three small charts stand in a row."""
    return {
        "title": title,
        "about": about,
        "charts": list(charts),
        "small": small,
        "tables": [table(grid) for grid in tables],
    }
