"""Battleship: find and sink the other player's hidden fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game and its bots."""
    catalog.add(
        "game", "battleship", "games.battleship.game:Battleship", "find and sink a hidden fleet"
    )
    bots = "games.battleship.bots"
    for name, target, summary in (
        ("hunter", "Hunter", "shoots at random, then beside its hits"),
        ("gunner", "Gunner", "shoots at the square that most probably holds a ship"),
    ):
        catalog.add("bot", f"battleship/{name}", f"{bots}:{target}", summary)
