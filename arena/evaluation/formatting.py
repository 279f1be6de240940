"""Intervals, options and tables as text, for terminals and Markdown.

The style of numbers is that of all commands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from arena.core.outcome import WIN_RATE, ReturnScale
from arena.core.text import UNKNOWN, decimal, percentage, share_digits
from arena.evaluation.records import Interval

if TYPE_CHECKING:
    from rich.table import Table


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


def percent_range(bounds: Interval) -> str:
    """Return `48 to 60 %` for bounds without a value."""
    return amount_range(bounds, WIN_RATE)


def amount_range(bounds: Interval, scale: ReturnScale, signed: bool = False) -> str:
    """Return `48 to 60 %`, or `−3 to +21 points`, for bounds without a value, by the unit."""
    if bounds.low is None or bounds.high is None:
        return UNKNOWN
    is_share = scale.unit == "share"
    factor, digits = (100, 0) if is_share else (1, 2)
    low, high = (decimal(factor * end, digits, signed) for end in (bounds.low, bounds.high))
    unit = ("points" if signed else "%") if is_share else scale.unit
    return f"{low} to {high} {unit}".rstrip()


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


def value_text(interval: Interval, unit: str = "", percent_sign: str = "%") -> str:
    """Return the value alone, with the decimals that its interval supports.

    `percent_sign` is shown behind a share; the difference of two shares has `points`.
    """
    behind = f" {percent_sign}" if unit in SHARES and interval.value is not None else ""
    return decimal(_scaled(interval.value, unit), _decimals(interval, unit)) + behind


def interval_text(interval: Interval, unit: str = "") -> str:
    """Return `48 to 60`; nothing if an end is unknown."""
    if interval.low is None or interval.high is None:
        return ""
    digits = _decimals(interval, unit)
    low, high = (decimal(_scaled(end, unit), digits) for end in (interval.low, interval.high))
    return f"{low} to {high}"


def points_text(difference: Interval) -> str:
    """Return the value of a difference of shares in percentage points, with its sign."""
    digits = _decimals(difference, "share")
    return decimal(_scaled(difference.value, "share"), digits, signed=True)


def p_text(p: float | None) -> str:
    """Return a p-value: `0.012`, `<0.001`, or `–`."""
    if p is None or p >= 0.001:
        return decimal(p, 3)
    return "<0.001"


def par_text(par: float | None) -> str:
    """Return ` (par 33 %)` to print beside win rates; empty if par is not known."""
    return "" if par is None else f" (par {percentage(par)})"


def rank_text(rank: Interval) -> str:
    """Return `2`, or `1–3` if the interval contains several ranks."""
    if rank.low is None or rank.high is None:
        return decimal(rank.value, 0)
    low, high = decimal(rank.low, 0), decimal(rank.high, 0)
    return low if low == high else f"{low}–{high}"


def _scaled(value: float | None, unit: str) -> float | None:
    return 100 * value if value is not None and unit in SHARES else value


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


def _decimals(interval: Interval, unit: str) -> int:
    """Two significant digits of the half width, at most 3 decimals; of shares as everywhere."""
    if unit in SHARES:
        return _share_digits(interval)
    if interval.low is None or interval.high is None or interval.high <= interval.low:
        return 2
    half = (interval.high - interval.low) / 2
    # Rounded first: a difference of floats may give 0.09999999 for 0.1.
    return min(3, max(0, 1 - math.floor(math.log10(float(f"{half:.6g}")))))


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
            return f"{words} {json_text(value)}"


def json_text(value: JsonValue) -> str:
    """Return text unchanged and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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


def _fitted(
    headings: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int | None], width: int
) -> Sequence[int | None]:
    """Return the widths with those of the text columns, so that no word of them is broken.

    Every text column gets its longest word, and the remaining columns of the terminal in
    proportion to its longest line. If not even the words fit, text columns stay None.
    """
    places = [place for place, wide in enumerate(widths) if wide is None]
    cells = {place: [headings[place], *(row[place] for row in rows)] for place in places}
    words = {place: _longest(" ".join(cells[place]).split()) for place in places}
    lines = {place: _longest("\n".join(cells[place]).split("\n")) for place in places}
    known = sum(wide for wide in widths if wide is not None)
    room = width - known - COLUMN_GAP * len(widths) - sum(words.values())
    if room < 0:
        return widths
    wanted = sum(lines[place] - words[place] for place in places)
    portion = min(1.0, room / wanted) if wanted else 0.0
    more = {place: int(portion * (lines[place] - words[place])) for place in places}
    return [words[n] + more[n] if wide is None else wide for n, wide in enumerate(widths)]


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text: a title, headings, rows. The first column names the row."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

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

        rows, dense = self.rows, False
        widths, total = _widths(self.headings, rows, MAX_CELL, broken=False)
        if total > width:
            widths, total = _widths(self.headings, rows, MAX_CELL, broken=True)
        if total > width:
            dense = True
            rows = [
                [cell.replace(" [", "\n[").replace(" (par", "\n(par") for cell in row]
                for row in rows
            ]
            widths, _ = _widths(self.headings, rows, MAX_STACKED_CELL, broken=True)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=dense)
        for place, wide in enumerate(_fitted(self.headings, rows, widths, width)):
            side: Literal["left", "right"] = "right" if place else "left"
            heading = Text(self.headings[place])
            table.add_column(heading, justify=side, overflow="fold", width=wide)
        for row in rows:
            table.add_row(*map(Text, row))
        return table


def escape_markdown(text: str) -> str:
    """Return a text as a cell or a line of Markdown without markup of its own."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
