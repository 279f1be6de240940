"""Bars of text: charts of several lines, sparklines, progress bars and parts of a bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from rich.text import Text

BLOCKS = " ▁▂▃▄▅▆▇█"
"""A column that is filled to 0, 1, … 8 eighths."""


def bar_lines(values: Sequence[float], top: float, lines: int) -> list[str]:
    """Return bars of this many lines, the upper line first.

    Every positive value has a visible bar.
    """
    steps = len(BLOCKS) - 1
    # Height of each bar in eighths of a line.
    heights = [max(value > 0, round(value / top * lines * steps)) for value in values]
    return [
        "".join(BLOCKS[max(0, min(steps, height - line * steps))] for height in heights)
        for line in reversed(range(lines))
    ]


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Draw values from their minimum to their maximum; unknown ones leave a gap.

    With more values than columns, a column is the mean of its values.
    """
    size, count = len(values), min(len(values), max(0, width))
    # The lengths of these parts differ by at most 1.
    parts = [values[size * n // count : size * (n + 1) // count] for n in range(count)]
    known_parts = [[value for value in part if value is not None] for part in parts]
    columns = [fmean(part) if part else None for part in known_parts]
    known = [value for value in columns if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    top = len(BLOCKS) - 2

    def block(value: float | None) -> str:
        if value is None:
            return " "
        # A constant is neither low nor high, so it is drawn in the middle.
        return BLOCKS[1 + (round((value - low) / (high - low) * top) if high > low else top // 2)]

    return "".join(map(block, columns))


def bar(filled: float, width: int, style: str) -> Text:
    """Draw a bar that is filled to this share (0 to 1), with half columns."""
    halves = round(max(0.0, min(1.0, filled)) * width * 2)
    full, half = divmod(halves, 2)
    text = Text().append("━" * full + "╸" * half, style)
    return text.append("─" * (width - full - half), "dim")


def stacked_columns(parts: Mapping[str, float], width: int) -> list[int]:
    """Return the columns of each part of a stacked bar; their sum is exactly `width`."""
    # Rounding the cumulative sums, not the parts, keeps the total.
    total, borders, cumulative = sum(parts.values()), [0], 0.0
    for part in parts.values():
        cumulative += part
        borders.append(round(cumulative / total * width))
    return [last - first for first, last in pairwise(borders)]
