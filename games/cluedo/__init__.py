"""Cluedo (Clue): rules, text, exact knowledge and bots."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game, its bots, reward terms, picture and scene."""
    catalog.add("game", "cluedo", "games.cluedo.game:Cluedo", "who did it, with what, where?")
    catalog.add("picture", "cluedo", "games.cluedo.views.picture:draw", "card grid and board")
    catalog.add("scene", "cluedo", "games.cluedo.views.scene:CluedoScene", "the board or the table")
    for name, summary in (
        ("random", "any legal action; rarely accuses, at random"),
        ("novice", "excludes only the cards that it has seen"),
        ("detective", "knows everything that logically follows; accuses when certain"),
        ("oracle", "exact probabilities; asks for most information, accuses if it pays"),
    ):
        module = "oracle" if name == "oracle" else "logic"
        target = f"games.cluedo.bots.{module}:{name.capitalize()}"
        catalog.add("bot", f"cluedo/{name}", target, summary)
    rewards = "games.cluedo.rewards"
    for name, summary in (
        ("question", "expected bits of own questions, relative to the best"),
        ("accusation", "right or wrong accusations"),
        ("premature", "accusations that came too early"),
        ("missed", "provable solutions that were not accused"),
        ("leak", "bits given away needlessly"),
        ("claims", "stated deductions compared with provable ones"),
    ):
        catalog.add("reward", name, f"{rewards}:{name.upper()}", summary)
