"""The table of a game as one description, drawn as text, in a terminal and in a browser.

A game names its `View`, a `TableView`. It is fed with the events that the viewer has witnessed and
describes the table by panels with rows of tiles:

    Tabletop((Panel("Hands", (TileRow((Tile("K"), Tile("?", "hidden")), "Player 0"),)),))

The label of a tile has to say everything; its tone only adds colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from arena.core.event import Event

Tone = Literal[
    "plain",
    "hidden",
    "good",
    "bad",
    "accent",
    "muted",
    "seat0",
    "seat1",
    "seat2",
    "seat3",
    "seat4",
]


@dataclass(frozen=True, slots=True)
class Tile:
    """One thing on the table: a card, a die, a square, a token."""

    label: str
    """At most about 12 characters."""
    tone: Tone = "plain"
    title: str = ""
    """Longer description, for a reader who points at the tile."""


@dataclass(frozen=True, slots=True)
class TileRow:
    """A row of things that belong together, for example the hand of a player."""

    tiles: tuple[Tile, ...]
    name: str = ""
    note: str = ""
    """Text behind the tiles."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of the table: rows of tiles, and sentences below them."""

    title: str
    rows: tuple[TileRow, ...] = ()
    columns: tuple[str, ...] = ()
    """Headings of the columns; with them the rows are a grid."""
    lines: tuple[str, ...] = ()
    fixed_width: bool = False
    """The lines are a drawing by characters, whose columns are aligned."""


@dataclass(frozen=True, slots=True)
class Tabletop:
    """The whole table: at most about 14 lines of 78 columns."""

    panels: tuple[Panel, ...]
    caption: str = ""
    drawing: str = ""
    """The table by characters, where they show it better than the labels of the tiles would."""

    def text(self) -> str:
        """Return the table as plain text."""
        if self.drawing:
            return self.drawing
        parts = ["\n".join(_panel_lines(panel)) for panel in self.panels]
        return "\n".join(filter(None, (*parts, self.caption)))


class TableView(Protocol):
    """The table as one viewer sees it; it is updated event by event."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""

    def tabletop(self) -> Tabletop:
        """Return the table now."""


class ViewedGame(Protocol):
    """The part of a game that draws it."""

    def new_view(self, seat: int | None) -> TableView | None: ...


class TabletopScene:
    """Scene of a game that has a view and no drawing of its own."""

    module: ClassVar[Path] = Path(__file__).with_name("tabletop.js")

    def __init__(self, game: ViewedGame, seat: int | None) -> None:
        view = game.new_view(seat)
        assert view is not None, f"{game!r} has no view"
        self._view = view

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        self._view.update(event)

    def to_json(self) -> Mapping[str, object]:
        """Return the fields of the `Tabletop`, under their names."""
        table = self._view.tabletop()
        # By hand: `dataclasses.asdict` copies deeply and takes ten times as long.
        return {"panels": [_panel_json(panel) for panel in table.panels], "caption": table.caption}


def draw_tabletop(game: ViewedGame, events: Sequence[Event], seat: int | None) -> Tabletop | None:
    """Return the table after these events, which the viewer has witnessed; None without a view."""
    view = game.new_view(seat)
    if view is None:
        return None
    for event in events:
        view.update(event)
    return view.tabletop()


def diagram(game: ViewedGame, events: Sequence[Event]) -> str:
    """Return the table as plain text, from the events that its viewer has witnessed."""
    # For the text it makes no difference which seat looks: the view knows these events only.
    table = draw_tabletop(game, events, None)
    return table.text() if table else ""


def _panel_json(panel: Panel) -> dict[str, object]:
    rows = [
        {
            "tiles": [{"label": t.label, "tone": t.tone, "title": t.title} for t in row.tiles],
            "name": row.name,
            "note": row.note,
        }
        for row in panel.rows
    ]
    return {
        "title": panel.title,
        "rows": rows,
        "columns": list(panel.columns),
        "lines": list(panel.lines),
        "fixed_width": panel.fixed_width,
    }


def _panel_lines(panel: Panel) -> list[str]:
    cells = [[row.name, *(tile.label for tile in row.tiles)] for row in panel.rows]
    if panel.columns:
        cells.insert(0, ["", *panel.columns])
    # The names form one column; of a grid all columns are aligned, of other rows only the names.
    aligned = max(map(len, cells), default=0) if panel.columns else 1
    widths = [
        max((len(row[column]) for row in cells if column < len(row)), default=0)
        for column in range(aligned)
    ]
    notes = [*([""] if panel.columns else []), *(row.note for row in panel.rows)]
    lines = [f"{panel.title}:"] if panel.title else []
    for row, note in zip(cells, notes, strict=True):
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(filter(None, (*padded, *row[aligned:], note))).rstrip())
    return [*lines, *panel.lines]
