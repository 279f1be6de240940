"""How a game is drawn: by its own scene and picture, or else from its view."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from arena.core.event import Event
from arena.core.tabletop import Panel, Tabletop, TabletopScene, Tile, Tone, draw_tabletop
from arena.core.views.scene import Picture, Scene
from arena.core.views.second_person import table_for
from arena.plugins.loader import catalog

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from arena.core.game import Game

TABLETOP = "tabletop"
"""Name of the scene that draws the view of any game."""

STYLES: dict[Tone, str] = {
    "plain": "reverse",
    "hidden": "dim reverse",
    "good": "black on green",
    "bad": "white on red",
    "accent": "black on yellow",
    "muted": "dim",
    "seat0": "white on blue",
    "seat1": "black on bright_yellow",
    "seat2": "black on bright_green",
    "seat3": "white on magenta",
    "seat4": "white on blue",
}
"""Style of a tile in a terminal; they stay legible on dark and on light backgrounds."""


class SceneFactory(Protocol):
    """Class of a scene: what a game registers, or the one for views."""

    @property
    def module(self) -> Path: ...

    def __call__(self, game: Any, seat: int | None) -> Scene: ...


def scene_name(game: Game) -> str | None:
    """Return the name of the scene that draws this game; None if there is none."""
    if game.name in catalog().names("scene"):
        return game.name
    return TABLETOP if game.new_view(None) is not None else None


def scene_factory(name: str) -> SceneFactory:
    """Return the class of a scene. Raises UsageError for a name that no game has registered."""
    if name == TABLETOP:
        return TabletopScene
    factory: SceneFactory = catalog().load("scene", name)
    return factory


def draw_picture(
    game: Game, events: Sequence[Event], seat: int | None, you: bool = False
) -> Picture | None:
    """Return the table for a terminal: the game's own picture, or its view.

    Args:
        game: The game that is drawn.
        events: The events that the viewer in this seat has witnessed.
        seat: The viewer's seat; None sees everything.
        you: The viewer plays this seat, so the table has "you" instead of the seat's name.

    Returns:
        The picture, or None if the game draws nothing.
    """
    if game.name in catalog().names("picture"):
        picture: Picture = catalog().load("picture", game.name)(game, events, seat)
        return picture
    table = draw_tabletop(game, events, seat)
    name = game.seat_names[seat] if you and seat is not None else ""
    return _tabletop_picture(table_for(table, name)) if table else None


def _tabletop_picture(table: Tabletop) -> Picture:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    lines = 0
    for panel in table.panels:
        if panel.title:
            parts.append(Text(panel.title, style="bold"))
        if panel.rows:
            parts.append(_rows(panel))
        parts += [Text(line, no_wrap=True, overflow="ellipsis") for line in panel.lines]
        lines += bool(panel.title) + bool(panel.columns) + len(panel.rows) + len(panel.lines)
    if table.caption:
        parts.append(Text(table.caption, style="dim"))
    return Picture(Group(*parts), lines + bool(table.caption))


def _rows(panel: Panel) -> Table:
    """Return a grid with one cell for each tile, or one cell for all tiles of a row."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    if panel.columns:
        grid.add_row("", *(Text(name, style="dim") for name in panel.columns))
    for row in panel.rows:
        tiles = [_tile(tile) for tile in row.tiles]
        cells = tiles if panel.columns else [Text(" ").join(tiles)]
        grid.add_row(Text(row.name), *cells, Text(row.note, style="dim"))
    return grid


def _tile(tile: Tile) -> Text:
    from rich.text import Text

    return Text(f" {tile.label} ", style=STYLES[tile.tone])
