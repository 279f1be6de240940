"""A third party's plugin: the game of Nim, and a bot that plays it perfectly."""

from __future__ import annotations

from arena import Catalog


def register(catalog: Catalog) -> None:
    catalog.add("game", "nim", "nim_game.rules:Nim", "take the last stick")
    catalog.add("bot", "nim/perfect", "nim_game.rules:Perfect", "never loses a won game")
