"""Kuhn poker: betting with three cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game."""
    catalog.add("game", "kuhn_poker", "games.kuhn_poker.game:KuhnPoker", "poker with three cards")
