"""Bundled games. They are registered in the catalog in the same way as third-party games."""

from __future__ import annotations

from typing import TYPE_CHECKING

from games import (
    avalon,
    battleship,
    cluedo,
    codenames,
    goofspiel,
    hanabi,
    kuhn_poker,
    leduc_poker,
    liars_dice,
    negotiation,
    tictactoe,
    werewolf,
)

if TYPE_CHECKING:
    from arena import Catalog

GAMES = (
    cluedo,
    tictactoe,
    kuhn_poker,
    leduc_poker,
    goofspiel,
    battleship,
    negotiation,
    liars_dice,
    codenames,
    hanabi,
    avalon,
    werewolf,
)
"""One package per game; importing it is cheap, because its code is loaded on first use."""


def register(catalog: Catalog) -> None:
    """Register the bundled games with their bots, reward terms and views."""
    for game in GAMES:
        game.register(catalog)
