"""Scenes: how a web page draws a game, by its own scene or else from its view."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from arena.core.event import Event
from arena.core.game import Game
from arena.core.tabletop import Panel, Scene
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
        """Return the fields of the `Tabletop`, under their names."""
        table = self._view.tabletop()
        # By hand: `dataclasses.asdict` copies deeply and takes ten times as long.
        return {"panels": [_panel_json(panel) for panel in table.panels], "caption": table.caption}


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
