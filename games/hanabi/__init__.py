"""Hanabi: a cooperative card game in which players see all hands but their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game and its bots."""
    catalog.add("game", "hanabi", "games.hanabi.game:Hanabi", "build fireworks from unseen cards")
    catalog.add(
        "bot", "hanabi/careful", "games.hanabi.bots:HanabiCareful", "plays only what surely fits"
    )
    catalog.add(
        "bot",
        "hanabi/conventions",
        "games.hanabi.bots:HanabiConventions",
        "gives and reads hints by agreed meanings",
    )
