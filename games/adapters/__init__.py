"""Games of other libraries: OpenSpiel, PettingZoo and TextArena, each a family of games."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the families. Their libraries are extras, imported with the first game."""
    catalog.add(
        "game_family",
        "open_spiel",
        "games.adapters.open_spiel.family:OPEN_SPIEL",
        "games of OpenSpiel",
    )
