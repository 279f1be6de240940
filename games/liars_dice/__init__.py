"""Liar's dice: bids on hidden dice, and challenges."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game and its bots."""
    summary = "bid on hidden dice, or challenge the last bid"
    catalog.add("game", "liars_dice", "games.liars_dice.game:LiarsDice", summary)
    for name, target, about in (
        ("counter", "Counter", "exact probabilities, given its own dice only"),
        ("reader", "Reader", "exact probabilities, given its own dice and a model of bidding"),
    ):
        catalog.add("bot", f"liars_dice/{name}", f"games.liars_dice.bots:{target}", about)
