"""Scenes: how a web page draws a game, by its own scene or else from its view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from arena.core.event import Event
from arena.core.game import Game
from arena.core.view.tabletop import Scene
from arena.plugins.loader import catalog

TABLETOP = "tabletop"
"""Name of the scene that draws the view of any game."""


class SceneFactory(Protocol):
    """Class of a scene: what a game registers, or the one for views."""

    @property
    def module(self) -> Path: ...

    def __call__(self, game: Any, seat: int | None) -> Scene: ...


def scene_name(game: Game) -> str | None:
    """Return the name of the scene that draws this game; None if there is none."""
    if game.name in catalog().names("scene"):
        return game.name
    return TABLETOP if game.View is not None else None


def scene_factory(name: str) -> SceneFactory:
    """Return the class of a scene. Raises UsageError for a name that no game has registered."""
    if name == TABLETOP:
        return TabletopScene
    factory: SceneFactory = catalog().load("scene", name)
    return factory


class TabletopScene:
    """Scene of a game that has a view and no drawing of its own."""

    module: ClassVar[Path] = Path(__file__).with_name("tabletop.js")

    def __init__(self, game: Game, seat: int | None) -> None:
        view = game.new_view(seat)
        assert view is not None, f"{game!r} has no view"
        self._view = view

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        self._view.update(event)

    def to_json(self) -> Mapping[str, object]:
        """Return the parts of the `Tabletop` and its caption; see `_json`."""
        table = self._view.tabletop()
        return {
            "parts": [_json(part) for part in table.panels],
            "caption": table.caption,
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
