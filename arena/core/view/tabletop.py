"""The table of a game as one description, drawn as text, in a terminal and in a browser.

A game names its `View`, a `TableView`. It is fed with the events that the viewer has witnessed and
describes the table by the typed pieces of `arena.core.view.pieces`:

    Tabletop((Panel("Hands", (TileRow((Card("K"), Card("?", "hidden")), "Player 0"),)),))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from arena.core.event import Event
from arena.core.view.pieces import Panel, Part


@dataclass(frozen=True, slots=True)
class Tabletop:
    """The whole table: at most about 14 lines of 78 columns."""

    panels: tuple[Part, ...]
    """Its parts, from top to bottom. A page may put small ones beside each other."""
    caption: str = ""
    side_by_side: bool = False
    """The parts are columns of the table, from left to right."""
    plain: str = ""
    """The table as plain text, where the panels would show it less well."""
    seat_notes: Mapping[int, str] = field(default_factory=dict)
    """A short note about a seat for its line, for example that it is out of the game."""
    legend: Mapping[str, str] = field(default_factory=dict)
    """Signs of the table and their meanings; at most seven, of a few words each."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """Texts of actions of the viewer that the rules forbid now, each with the reason as a sentence.
    A page shows them where the pieces of the action are chosen."""

    def text(self) -> str:
        """Return the table as plain text."""
        if self.plain:
            return self.plain
        blocks = [_panel_lines(part.panel()) for part in self.panels]
        if self.side_by_side:
            blocks = [_beside(blocks)]
        parts = ["\n".join(block) for block in blocks]
        return "\n".join(filter(None, (*parts, self.caption)))


class TableView(Protocol):
    """The table as one viewer sees it; it is updated event by event."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""

    def tabletop(self) -> Tabletop:
        """Return the table now."""


@runtime_checkable
class Scene(TableView, Protocol):
    """A view that a web page draws by an ES module of its own; all others are drawn in one way.

    The module has one function:

        export function draw(scene, context)

    `scene` is the value of `to_json`. `context` has `game` (name), `options`, `seats` (their
    names), `specs`, `seat` (number or null), `before` (the scene one ply earlier, or null: a scene
    may mark changes), and `h(tag, attributes, ...children)` and `s(...)`, which create HTML and SVG
    elements; strings become text, never markup. The function returns one element, with a text
    alternative for people who cannot see it. It imports and requests nothing: the page's policy
    would block that.

    Where people play in a browser, they can click elements with the attribute `data-picks`: phrases
    of actions, separated by "|", see `arena.core.view.pieces`.
    """

    module: ClassVar[Path]
    """The file of the ES module that draws it."""

    def to_json(self) -> Mapping[str, object]:
        """Return the table now, as the module expects it; the value does not change later.

        A JSON object: a dict or a `TypedDict` of values that the json module can write.
        """


class ViewedGame(Protocol):
    """The part of a game that draws it."""

    def new_view(self, seat: int | None) -> TableView | None: ...


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


def _beside(blocks: list[list[str]]) -> list[str]:
    """Return blocks of lines as columns."""
    widths = [max(map(len, block), default=0) for block in blocks]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in zip_longest(*blocks, fillvalue="")
    ]


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
