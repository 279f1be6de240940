"""Avalon: The Resistance with hidden roles, sealed votes and talk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game and its bot."""
    catalog.add("game", "avalon", "games.avalon.game:Avalon", "hidden roles, votes and missions")
    summary = "votes and proposes by the exact posterior; evil hides and lets missions fail"
    catalog.add("bot", "avalon/deducer", "games.avalon.bots:AvalonDeducer", summary)
