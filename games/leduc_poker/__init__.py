"""Leduc hold'em: poker with six cards and two rounds of betting."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game and its bots."""
    summary = "poker with six cards and two rounds"
    catalog.add("game", "leduc_poker", "games.leduc_poker.game:LeducPoker", summary)
    for name, target, about in (
        ("odds", "Odds", "calls and raises by its exact chance against a random hand"),
        ("equilibrium", "Equilibrium", "plays an approximate Nash equilibrium"),
    ):
        catalog.add("bot", f"leduc_poker/{name}", f"games.leduc_poker.bots:{target}", about)
