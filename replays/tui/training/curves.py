"""Lines of the live view: a quantity with its sparkline, bars, and rows of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.text import Text

from arena.evaluation.output.formatting import decimal
from arena.evaluation.report import Interval
from trainers.runs.figures import Figure, Unit
from trainers.runs.sentences import share

BLOCKS = "▁▂▃▄▅▆▇█"
NAME, VALUE, RANGE = 15, 8, 18
"""Columns of a line: name, newest value, interval. The sparkline has the rest."""

FORMATS: Mapping[Unit, Callable[[float | None], str]] = {
    "": lambda value: decimal(value, 3),
    "percent": share,
    "points": lambda value: decimal(None if value is None else 100 * value, 1, signed=True),
}


def significant(value: float | None) -> str:
    """Return three significant digits; a dash if the value is unknown."""
    return "–" if value is None else f"{value:.3g}".replace("-", "−")


@dataclass(frozen=True, slots=True)
class CurveLine:
    """A figure in one line: its name, its newest value with interval or note, and a sparkline."""

    figure: Figure
    format: Callable[[float | None], str]
    style: str = ""
    note: str | None = ""
    """Text in place of an interval. None: the sparkline starts there."""

    def render(self, width: int) -> Text:
        """Return the line in at most `width` columns."""
        line = Text(no_wrap=True)
        newest = self.figure.newest
        line.append(fitted(self.figure.name, NAME - 1) + " ", "cyan")
        line.append(self.format(newest.value).rjust(VALUE) + " ", self.style)
        if self.note is not None:
            line.append(fitted(self._interval(newest) or self.note, RANGE - 1) + " ", "dim")
        line.append(sparkline(self.figure.values, width - line.cell_len), "blue")
        line.truncate(width)
        return line

    def _interval(self, newest: Interval) -> str:
        if newest.low is None or newest.high is None:
            return ""
        low, high = (self.format(end).removesuffix(" %") for end in (newest.low, newest.high))
        return f"{low} to {high}"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Draw values from their minimum to their maximum; unknown ones leave a gap.

    With more values than columns, a column is the mean of its values.
    """
    columns = [_mean(part) for part in _parts(values, width)]
    known = [value for value in columns if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    top = len(BLOCKS) - 1

    def block(value: float | None) -> str:
        if value is None:
            return " "
        # A constant is neither low nor high, so it is drawn in the middle.
        return BLOCKS[round((value - low) / (high - low) * top) if high > low else top // 2]

    return "".join(map(block, columns))


def _parts(values: Sequence[float | None], width: int) -> list[Sequence[float | None]]:
    """Split the values into at most `width` parts whose lengths differ by at most 1."""
    count = min(len(values), max(0, width))
    borders = [len(values) * column // count for column in range(count + 1)] if count else []
    return [values[first:last] for first, last in pairwise(borders)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def bar(filled: float, width: int, style: str) -> Text:
    """Draw a bar that is filled to this share (0 to 1), with half columns."""
    halves = round(max(0.0, min(1.0, filled)) * width * 2)
    full, half = divmod(halves, 2)
    text = Text().append("━" * full + "╸" * half, style)
    return text.append("─" * (width - full - half), "bright_black")


def stacked_columns(parts: Mapping[str, float], width: int) -> list[int]:
    """Return the columns of each part of a stacked bar; their sum is exactly `width`."""
    # Rounding the cumulative sums, not the parts, keeps the total.
    total, borders, cumulative = sum(parts.values()), [0], 0.0
    for part in parts.values():
        cumulative += part
        borders.append(round(cumulative / total * width))
    return [last - first for first, last in pairwise(borders)]


def heading(words: str, width: int) -> Text:
    """Return a heading, filled with a line."""
    text = Text(f"── {words} ", "bright_black")
    return text.append("─" * max(0, width - text.cell_len))


def justified(left: Text, right: Text, width: int) -> Text:
    """Return one text at the left and one at the right of a line; the left one is shortened."""
    left = left.copy()
    left.truncate(max(1, width - right.cell_len - 2), overflow="ellipsis")
    gap = max(1, width - left.cell_len - right.cell_len)
    line = Text.assemble(left, " " * gap, right)
    line.truncate(width)
    return line


def cut(text: Text, width: int) -> Text:
    """Shorten a text in place, with an ellipsis."""
    text.truncate(width, overflow="ellipsis")
    return text


def fact_line(name: str, parts: Iterable[Text], width: int, separator: str = " · ") -> Text:
    """Return a name and the parts that fit into the line."""
    line = Text().append(name.ljust(NAME), "cyan")
    first = True
    for part in parts:
        gap = "" if first else separator
        if line.cell_len + len(gap) + part.cell_len <= width:
            line.append(gap, "dim").append_text(part)
            first = False
    return line


def fitted(words: str, width: int) -> str:
    """Shorten or pad words to exactly `width` columns."""
    text = Text(words)
    text.truncate(width, overflow="ellipsis", pad=True)
    return text.plain
