"""The lines of the live view of a training run: a curve with its newest value, bars, numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.text import Text

from trainers.runs.records import Interval

BLOCKS = "▁▂▃▄▅▆▇█"
NAME, VALUE, RANGE = 15, 8, 18
"""Columns of a row: what it is, its newest value, the interval; the curve has the rest."""
NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity over the steps."""

    name: str
    values: Sequence[float | None]
    form: Callable[[float | None], str]
    style: str = ""
    note: str | None = ""
    """Stands where there is no interval; None: the curve begins there."""
    newest: Interval | None = None
    """With the interval of the last value, if it has one."""

    def row(self, width: int) -> Text:
        between, newest = self.note or "", self.newest
        if newest and newest.low is not None and newest.high is not None:
            between = f"{_bare(self.form(newest.low))} to {_bare(self.form(newest.high))}"
        line = Text(no_wrap=True)
        line.append(fitted(self.name, NAME - 1) + " ", "cyan")
        line.append(
            self.form(self.values[-1] if self.values else None).rjust(VALUE) + " ", self.style
        )
        line.append("" if self.note is None else fitted(between, RANGE - 1) + " ", "dim")
        line.append(sparkline(self.values, width - line.cell_len), "blue")
        line.truncate(width)
        return line


def _bare(number: str) -> str:
    return number.removesuffix(" %")


def sparkline(values: Sequence[float | None], width: int) -> str:
    """From the lowest to the highest value; a gap where nothing is known.

    If there are more values than columns, a column is the mean of its values.
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
        # A constant is drawn in the middle: it is neither the lowest nor the highest.
        return BLOCKS[round((value - low) / (high - low) * top) if high > low else top // 2]

    return "".join(map(block, columns))


def _parts(values: Sequence[float | None], width: int) -> list[Sequence[float | None]]:
    count = min(len(values), max(0, width))
    ends = [len(values) * column // count for column in range(count + 1)] if count else []
    return [values[first:last] for first, last in pairwise(ends)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def bar(share: float, width: int, style: str) -> Text:
    """A bar that is full to this share, to half a column."""
    halves = round(max(0.0, min(1.0, share)) * width * 2)
    full, half = divmod(halves, 2)
    text = Text().append("━" * full + "╸" * half, style)
    return text.append("─" * (width - full - half), "bright_black")


def cells(parts: Mapping[str, float], width: int) -> list[int]:
    """Columns of each part of a stacked bar; together exactly `width`."""
    whole, ends, passed = sum(parts.values()), [0], 0.0
    for part in parts.values():
        passed += part
        ends.append(round(passed / whole * width))
    return [last - first for first, last in pairwise(ends)]


def heading(words: str, width: int) -> Text:
    text = Text(f"── {words} ", "bright_black")
    return text.append("─" * max(0, width - text.cell_len))


def ends(left: Text, right: Text, width: int) -> Text:
    """One at the left and one at the right of a line; the left one gives way."""
    left = left.copy()
    left.truncate(max(1, width - right.cell_len - 2), overflow="ellipsis")
    gap = max(1, width - left.cell_len - right.cell_len)
    line = Text.assemble(left, " " * gap, right)
    line.truncate(width)
    return line


def cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text


def row_of(name: str, parts: Iterable[Text], width: int, between: str = " · ") -> Text:
    """A name and as many of its parts as a line has room for."""
    line = Text().append(name.ljust(NAME), "cyan")
    first = True
    for part in parts:
        gap = "" if first else between
        if line.cell_len + len(gap) + part.cell_len <= width:
            line.append(gap, "dim").append_text(part)
            first = False
    return line


def fitted(words: str, width: int) -> str:
    text = Text(words)
    text.truncate(width, overflow="ellipsis", pad=True)
    return text.plain


def percent(value: float | None) -> str:
    return NOTHING if value is None else _minus(f"{value * 100:.1f} %")


def points(value: float | None) -> str:
    """A difference of two shares, in percentage points."""
    return NOTHING if value is None else _minus(f"{value * 100:+.1f}")


def decimal(value: float | None) -> str:
    return (
        NOTHING if value is None else _minus(f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}")
    )


def significant(value: float | None) -> str:
    return NOTHING if value is None else _minus(f"{value:.3g}")


def thousands(value: float | None) -> str:
    """`812`, `4.1k`, `23k`, `1.2M`."""
    if value is None:
        return NOTHING
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"


def _minus(number: str) -> str:
    return number.replace("-", "−")
