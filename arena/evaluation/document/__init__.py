"""Documents: the sentences, tables and charts of a result, written to a terminal, Markdown or HTML.

Every result of arena is shown as a `Document`: evaluations, tournaments and analyses
(`arena.evaluation.document.tables`) and training runs (`trainers.runs.document`). So all views say
the same words and numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from arena.core.event import ReturnScale
from arena.core.text import MINUS, UNKNOWN, decimal, percentage, share_digits
from arena.evaluation.records import Interval

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with `{}` for each name of a player.

    Names are kept apart because they come from outside and may be written from right to left: a
    page must escape and isolate them.
    """

    template: str
    names: tuple[str, ...] = ()

    @classmethod
    def plain(cls, text: str) -> Sentence:
        """Return a sentence without names."""
        return cls(text.replace("{", "{{").replace("}", "}}"))

    def __str__(self) -> str:
        return self.template.format(*self.names)


# Numbers and options as text, in the style of all commands

SHARES = ("share", "probability", "rate")
"""Units whose values are shown in per cent."""
NO_DECIMALS_FROM = 100
"""Size of a number from which intervals have no decimals."""


def number(interval: Interval, digits: int = 2, signed: bool = False) -> str:
    """Return `0.81 [0.78, 0.84]`; an unknown end is a dash."""
    if interval.value is not None and abs(interval.value) >= NO_DECIMALS_FROM:
        digits = 0
    return _with_ends(interval, 1, digits, signed, "")


def percent(interval: Interval, signed: bool = False) -> str:
    """Return `54 % [48, 60]`, or for a difference of shares `+12 points [+3, +21]`."""
    digits = _share_digits(interval)
    return _with_ends(interval, 100, digits, signed, " points" if signed else " %")


def amount(interval: Interval, scale: ReturnScale, signed: bool = False) -> str:
    """Return `−0.17 chips [−0.22, −0.11]`, or for shares as `percent`, by the unit of the scale."""
    if scale.unit == "share":
        return percent(interval, signed)
    return _with_ends(interval, 1, 2, signed, f" {scale.unit}" if scale.unit else "")


def _with_ends(interval: Interval, scale: int, digits: int, signed: bool, unit: str) -> str:
    """Return the value, and its ends if it and at least one of them are known."""

    def text(end: float | None) -> str:
        return decimal(None if end is None else scale * end, digits, signed)

    if interval.value is None:
        return UNKNOWN
    value = f"{text(interval.value)}{unit}"
    if interval.low is None and interval.high is None:
        return value
    return f"{value} [{text(interval.low)}, {text(interval.high)}]"


def in_unit(unit: str, interval: Interval, digits: int = 2, signed: bool = False) -> str:
    """Return the interval of a measure that has this unit."""
    if unit in SHARES:
        return percent(interval, signed)
    return number(interval, digits, signed)


def p_text(p: float | None) -> str:
    """Return a p-value: `0.012`, `<0.001`, or `–`."""
    if p is None or p >= 0.001:
        return decimal(p, 3)
    return "<0.001"


def par_text(par: float | None) -> str:
    """Return ` (par 33 %)` to print beside win rates; empty if par is not known."""
    return "" if par is None else f" (par {percentage(par)})"


def _share_digits(interval: Interval) -> int:
    """Return 1 if the share, or the half width of its interval, is below 1 %; else 0.

    Up to 3 if nearly everything would otherwise be shown as 100 %.
    """
    digits, size = share_digits(interval.value), abs(interval.value or 0.0)
    if interval.low is not None and interval.high is not None and interval.high > interval.low:
        digits = max(digits, share_digits((interval.high - interval.low) / 2))
    while size < 1 and digits < 3 and round(100 * size, digits) == 100:
        digits += 1
    return digits


def options_in_words(options: Mapping[str, JsonValue]) -> list[str]:
    """Return `4 players`, `no board`, `cards` for num_players=4, board=False, variant="cards"."""
    return [_option(name, value) for name, value in options.items() if value is not None]


def _option(name: str, value: JsonValue) -> str:
    words = name.replace("_", " ")
    match value:
        case bool():
            return words if value else f"no {words}"
        case int() | float() if words.startswith("num "):
            return f"{value} {words[4:]}"
        case int() if words == "players":
            return f"{value} players"
        case str() if name in {"variant", "rules"}:
            return value
        case _:
            return f"{words} {value_in_words(value)}"


def value_in_words(value: JsonValue) -> str:
    """Return `yes` for true, `a, b` for a list, and `name: value, name: value` for an object."""
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(value_in_words, value)) or "none"
        case dict():
            known = {name: each for name, each in value.items() if each is not None}
            parts = (f"{name}: {value_in_words(each)}" for name, each in known.items())
            return ", ".join(parts) or "none"
        case None:
            return UNKNOWN
        case _:
            return json.dumps(value)


# Tables

MAX_CELL, MAX_STACKED_CELL = 24, 16
"""Widest cell that is kept on one line: a value with its interval beside it, or below it."""
COLUMN_GAP = 3


def _widths(
    headings: Sequence[str], rows: Sequence[Sequence[str]], max_cell: int, broken: bool
) -> tuple[list[int | None], int]:
    """Return the widths of the columns, and of the table. `broken` headings take several lines.

    The first column, and one with a cell above `max_cell` characters, hold names and sentences.
    Their width is None: they are broken and take the remaining width.
    """
    widths, total = list[int | None](), 0
    for place, heading in enumerate(headings):
        longest = _longest(line for row in rows for line in row[place].split("\n"))
        wide = max(longest, min(_longest(heading.split() if broken else [heading]), max_cell))
        widths.append(wide if place and longest <= max_cell else None)
        total += min(wide, max_cell) + COLUMN_GAP
    return widths, total


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text: a title, headings, rows. The first column names the row."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    abouts: Mapping[str, str] = field(default_factory=dict)
    """Definitions of columns and rows by their headings; HTML shows them on request."""

    def markdown(self) -> str:
        aligned = ["---", *["---:"] * (len(self.headings) - 1)]
        lines = [self.headings, aligned, *self.rows]
        table = "\n".join(f"| {' | '.join(map(escape_markdown, line))} |" for line in lines)
        return f"**{escape_markdown(self.title)}**\n\n{table}\n"

    def rich(self, width: int) -> Table:
        """Return the table for a terminal of this width.

        Numbers are never broken. If the width is too small, headings are broken, and if that is
        not enough, intervals are placed below their values.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        rows = self.rows
        for max_cell, broken in ((MAX_CELL, False), (MAX_CELL, True), (MAX_STACKED_CELL, True)):
            if max_cell == MAX_STACKED_CELL:
                rows = [
                    [cell.replace(" [", "\n[").replace(" (par", "\n(par") for cell in row]
                    for row in rows
                ]
            widths, total = _widths(self.headings, rows, max_cell, broken)
            if total <= width:
                break
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=rows is not self.rows)
        for place, (heading, wide) in enumerate(zip(self.headings, widths, strict=True)):
            side: Literal["left", "right"] = "right" if place else "left"
            table.add_column(Text(heading), justify=side, overflow="fold", width=wide)
        for row in rows:
            table.add_row(*map(Text, row))
        return table


def escape_markdown(text: str) -> str:
    """Return a text as a cell or a line of Markdown without markup of its own."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


# Charts


def plain_tick(value: float) -> str:
    """`0.25`, `12 k`, `3.4 M`."""
    if 1e4 <= abs(value) < 1e9:
        size, unit = (1e6, "M") if abs(value) >= 1e6 else (1e3, "k")
        return f"{value / size:.4g} {unit}".replace("-", MINUS)
    return f"{value:.4g}".replace("-", MINUS)


def percent_tick(value: float) -> str:
    """`40 %`."""
    return f"{value * 100:.4g} %".replace("-", MINUS)


def points_tick(value: float) -> str:
    """`+12`: a difference of two shares, in percentage points."""
    return f"{value * 100:+.4g}".replace("-", MINUS) if abs(value) > 1e-9 else "0"


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A point with the ends of its interval; all numbers are finite."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one line, by rising x."""

    points: Sequence[ChartPoint]
    color: int = 0
    """0 to 6: the class `c0` to `c6` of the page."""
    marker: int | None = None
    """Number of a shape in `MARKS`; None draws none, except for a single point."""
    bars: bool = False
    """Draw intervals as bars at the points instead of a band along the line."""


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """One axis; without `low` and `high` it spans the data and a margin."""

    title: str = ""
    low: float | None = None
    high: float | None = None
    format: Callable[[float], str] = plain_tick
    whole: bool = False
    """Label whole numbers only."""
    ticks: int = 6
    """Labels, at most."""
    bounds: tuple[float, float] | None = None
    """Least and greatest possible value: the margin around the data does not exceed them."""


def points_of(series: Mapping[int, Interval]) -> list[ChartPoint]:
    """Points by rising x; intervals without a value are left out."""
    return [
        ChartPoint(x, point.value, point.low, point.high)
        for x, point in sorted(series.items())
        if point.value is not None
    ]


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines with their intervals. Without names there is one line and no legend."""

    title: str
    about: str
    lines: Sequence[Series]
    x: ChartAxis
    y: ChartAxis
    names: Sequence[str] = ()
    """Names of the lines, for the legend."""
    reference: float | None = None
    """Value of y at which a dashed line is drawn, for example no effect."""


# Documents


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with tables and charts."""

    title: str
    grids: Sequence[Grid] = ()
    charts: Sequence[LineChart] = ()
    details: Sequence[Grid] = ()
    """Tables that HTML folds and other writers leave out."""
    about: str = ""
    """A sentence below the heading in HTML."""
    is_folded: bool = False
    """True if the section is shown on request only."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a report, the most important first."""

    title: str
    facts: Sequence[str]
    headline: Sequence[Sentence]
    """The result in sentences; the first one is the answer."""
    notes: Sequence[str]
    """Limitations that a reader must know before the numbers."""
    sections: Sequence[Section]
    remarks: Sequence[str] = ()
    """Sentences about the method."""
    definitions: Sequence[str] = ()
    """Definitions of the measures. A terminal and Markdown show them on request."""

    def grids(self, explain: bool = True) -> Iterator[Grid]:
        """Yield the tables; without `explain` only those that are always shown."""
        for section in self.sections:
            if explain or not section.is_folded:
                yield from section.grids

    @property
    def sentences(self) -> list[str]:
        """The result and its limitations; the first sentence is the answer."""
        return [*map(str, self.headline), *self.notes]

    def markdown(self, explain: bool = False) -> str:
        """Return the report as Markdown, without charts: the answer first.

        With `explain`, it has all tables and the definitions.
        """
        answer, *others = self.sentences
        tables = "\n".join(grid.markdown() for grid in self.grids(explain)).rstrip("\n")
        last = [*self.remarks, *(self.definitions if explain else ())]
        return "\n\n".join([f"**{escape_markdown(answer)}**", *others, tables, *last])
