"""Codenames: two teams find their words by clues of one word."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game and its bot."""
    catalog.add("game", "codenames", "games.codenames.game:Codenames", "find words by clues")
    catalog.add(
        "bot",
        "codenames/associative",
        "games.codenames.bots:AssociativeBot",
        "gives and guesses clues by a table of associated words",
    )
