"""Negotiation (deal or no deal): divide items of private value by offers and talk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game and its bots."""
    catalog.add(
        "game",
        "negotiation",
        "games.negotiation.game:Negotiation",
        "divide items of private value, by offers and talk",
    )
    bots = "games.negotiation.bots"
    for name, target, summary in (
        ("conceder", "Conceder", "concedes early; offers what others probably value"),
        ("boulware", "Boulware", "concedes late; offers what others probably value"),
    ):
        catalog.add("bot", f"negotiation/{name}", f"{bots}:{target}", summary)
