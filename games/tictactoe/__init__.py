"""Tic-tac-toe: three in a row, nothing hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game."""
    catalog.add("game", "tictactoe", "games.tictactoe.game:TicTacToe", "three in a row")
