"""Scenes: how a web page draws a game, by its own scene or else from its view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from arena.core.errors import UsageError
from arena.core.event import Event
from arena.core.game import Game
from arena.core.view import Scene, Tabletop, TableView
from arena.plugins.catalog import catalog, game_class

TABLETOP = "tabletop"
"""Name of the scene that draws the view of any game."""


def new_scene(game: Game, seat: int | None) -> Scene | None:
    """Return a new scene of a game for a seat; None if the game has no view."""
    view = game.new_view(seat)
    return view if view is None or isinstance(view, Scene) else TabletopScene(view)


def scene_name(game: Game) -> str | None:
    """Return the name of the scene that draws this game; None if there is none."""
    scene = new_scene(game, None)
    return None if scene is None else TABLETOP if isinstance(scene, TabletopScene) else game.name


def scene_module(name: str) -> Path:
    """Return the ES module of a scene. Raises UsageError for a name without one."""
    if name == TABLETOP:
        return TabletopScene.module
    view = game_class(name).view_class() if name in catalog().names("game") else None
    module: Path | None = getattr(view, "module", None)
    if module is None:
        raise UsageError(f"there is no scene '{name}'")
    return module


class TabletopScene:
    """Scene of a view that has no drawing of its own."""

    module: ClassVar[Path] = Path(__file__).with_name("tabletop.js")

    def __init__(self, view: TableView) -> None:
        self._view = view

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        return self._view.tabletop()

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        self._view.update(event)

    def to_json(self) -> Mapping[str, object]:
        """Return the parts of the `Tabletop` and its caption; see `_json`."""
        table = self._view.tabletop()
        return {
            "parts": [_json(part) for part in table.panels],
            "caption": table.caption if table.page_caption is None else table.page_caption,
            "prompts": dict(table.prompts),
            "wording": dict(table.wording),
            "is_night": table.is_night,
            "side_by_side": table.side_by_side,
            "blocked": dict(table.blocked),
        }


def _json(value: object) -> object:
    """Return a piece as JSON: its kind and the fields that do not have their default."""
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    # By hand: `dataclasses.asdict` copies deeply and takes ten times as long.
    made: dict[str, object] = {"kind": type(value).__name__.lower()}
    for name, default in _defaults(type(value)):
        field = getattr(value, name)
        if field != default:
            made[name] = _json(field)
    return made


@cache
def _defaults(piece: type) -> tuple[tuple[str, object], ...]:
    # The coloured drawing of a panel is for terminals.
    return tuple((each.name, each.default) for each in fields(piece) if each.name != "drawing")
