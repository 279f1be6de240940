"""Goofspiel: simultaneous sealed bids for prizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game."""
    catalog.add("game", "goofspiel", "games.goofspiel.game:Goofspiel", "sealed bids for prizes")
