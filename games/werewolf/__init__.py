"""Werewolf (Mafia): talk, elimination by vote, and secret actions at night."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the game and its bot."""
    catalog.add("game", "werewolf", "games.werewolf.game:Werewolf", "find the wolves, or be eaten")
    summary = (
        "votes by the exact posterior and by statements; wolves hunt who claims to be the seer"
    )
    catalog.add("bot", "werewolf/deducer", "games.werewolf.bots:WerewolfDeducer", summary)
