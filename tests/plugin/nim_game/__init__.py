"""A third party's plugin: the game of Nim, a bot that plays it perfectly, and a measure."""

from __future__ import annotations

from arena import Catalog


def register(catalog: Catalog) -> None:
    catalog.add("game", "nim", "nim_game.rules:Nim", "take the last stick")
    catalog.add("bot", "nim/perfect", "nim_game.rules:Perfect", "never loses a won game")
    catalog.add("measure", "nim/winning_moves", "nim_game.measures:WINNING_MOVES", "won games kept")
