"""Lines of the live view: a quantity with its sparkline, and rows of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rich.text import Text

from arena.core.views.number_text import decimal
from replays.tui.bars import sparkline
from trainers.runs.figures import Figure, Unit
from trainers.runs.sentences import share

NAME, VALUE, RANGE = 15, 8, 18
"""Columns of a line: name, newest value, interval. The sparkline has the rest."""

FORMATS: Mapping[Unit, Callable[[float | None], str]] = {
    "": lambda value: decimal(value, 3),
    "percent": share,
    "points": lambda value: decimal(None if value is None else 100 * value, 1, signed=True),
    "difference": lambda value: decimal(value, 2, signed=True),
}


def significant(value: float | None) -> str:
    """Return three significant digits; a dash if the value is unknown."""
    return "–" if value is None else f"{value:.3g}".replace("-", "−")


def curve_line(
    figure: Figure,
    width: int,
    style: str = "",
    note: str | None = "",
    format: Callable[[float | None], str] | None = None,
) -> Text:
    """Return a figure in one line of at most `width` columns.

    The line has its name, its newest value with the interval, and a sparkline. `note` is a text in
    place of an unknown interval; None: the sparkline starts there. The default format is that of
    the figure's unit.
    """
    line = Text(no_wrap=True)
    newest, in_words = figure.newest, format or FORMATS[figure.unit]
    line.append(fitted(figure.name, NAME - 1) + " ", "cyan")
    line.append(in_words(newest.value).rjust(VALUE) + " ", style)
    if note is not None:
        if newest.low is not None and newest.high is not None:
            low, high = (in_words(end).removesuffix(" %") for end in (newest.low, newest.high))
            note = f"{low} to {high}"
        line.append(fitted(note, RANGE - 1) + " ", "dim")
    line.append(sparkline(figure.values, width - line.cell_len), "blue")
    line.truncate(width)
    return line


def heading(words: str, width: int) -> Text:
    """Return a heading, filled with a line."""
    text = Text(f"── {words} ", "dim")
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
