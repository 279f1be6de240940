"""A table of text, for a terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table

MAX_CELL, MAX_STACKED_CELL = 24, 16
"""Widest cell that is kept on one line: a value with its interval beside it, or below it."""
COLUMN_GAP = 3


@dataclass(frozen=True, slots=True)
class _Layout:
    """The cells of a grid and the widths of its columns."""

    rows: Sequence[Sequence[str]]
    widths: Sequence[int | None]
    """None for columns of names and sentences, which are broken and take the remaining width."""
    total: int
    dense: bool

    @staticmethod
    def of(
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        max_cell: int,
        broken: bool,
        dense: bool = False,
    ) -> _Layout:
        """Measure the columns. `broken` headings take several lines.

        A column with a cell above `max_cell` characters holds text, not numbers.
        """
        widths, total = list[int | None](), 0
        for place, heading in enumerate(headings):
            longest = _longest(line for row in rows for line in row[place].split("\n"))
            wide = max(longest, min(_longest(heading.split() if broken else [heading]), max_cell))
            widths.append(wide if place and longest <= max_cell else None)
            total += min(wide, max_cell) + COLUMN_GAP
        return _Layout(rows, widths, total, dense)

    def fitted(self, headings: Sequence[str], width: int) -> Sequence[int | None]:
        """Return the widths with those of the text columns, so that no word of them is broken.

        Every text column gets its longest word, and the remaining columns of the terminal in
        proportion to its longest line. If not even the words fit, text columns stay None.
        """
        places = [place for place, wide in enumerate(self.widths) if wide is None]
        cells = {place: [headings[place], *(row[place] for row in self.rows)] for place in places}
        words = {place: _longest(" ".join(cells[place]).split()) for place in places}
        lines = {place: _longest("\n".join(cells[place]).split("\n")) for place in places}
        known = sum(wide for wide in self.widths if wide is not None)
        room = width - known - COLUMN_GAP * len(self.widths) - sum(words.values())
        if room < 0:
            return self.widths
        wanted = sum(lines[place] - words[place] for place in places)
        portion = min(1.0, room / wanted) if wanted else 0.0
        more = {place: int(portion * (lines[place] - words[place])) for place in places}
        return [
            words[place] + more[place] if wide is None else wide
            for place, wide in enumerate(self.widths)
        ]


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

        layout = self._layout(width)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=layout.dense)
        for place, wide in enumerate(layout.fitted(self.headings, width)):
            side: Literal["left", "right"] = "right" if place else "left"
            heading = Text(self.headings[place])
            table.add_column(heading, justify=side, overflow="fold", width=wide)
        for row in layout.rows:
            table.add_row(*map(Text, row))
        return table

    def _layout(self, width: int) -> _Layout:
        wide = _Layout.of(self.headings, self.rows, MAX_CELL, broken=False)
        broken = _Layout.of(self.headings, self.rows, MAX_CELL, broken=True)
        stacked = [
            [cell.replace(" [", "\n[").replace(" (par", "\n(par") for cell in row]
            for row in self.rows
        ]
        dense = _Layout.of(self.headings, stacked, MAX_STACKED_CELL, broken=True, dense=True)
        return next((layout for layout in (wide, broken) if layout.total <= width), dense)


def escape_markdown(text: str) -> str:
    """Return a text as a cell or a line of Markdown without markup of its own."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
