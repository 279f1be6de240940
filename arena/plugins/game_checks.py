"""Checks of a game that plugins add to `arena doctor GAME`, for faults that the rules cannot see.

A plugin registers a check with `catalog.add("check", GAME, "module:function")`. The function gets
the game and returns what it has found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from arena.core.game import Game
from arena.plugins.loader import catalog


@dataclass(frozen=True, slots=True)
class GameFinding:
    """Result of one check of a game."""

    check: str
    """What was checked, in a few words."""
    passed: bool
    detail: str
    """The figures, and for a fault an example."""


class GameCheck(Protocol):
    """What a plugin registers for a game."""

    def __call__(self, game: Game) -> Sequence[GameFinding]: ...


def plugin_findings(game: Game) -> list[GameFinding]:
    """Run the checks that plugins have registered for this game."""
    if game.name not in catalog().names("check"):
        return []
    check: GameCheck = catalog().load("check", game.name)
    return list(check(game))
