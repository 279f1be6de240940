"""The third bot of four: it knows everything that logically follows."""

from __future__ import annotations

from collections.abc import Sequence

from arena import Event, Seat
from games.cluedo.bots.base import EliminationBot
from games.cluedo.inference.knowledge import CluedoKnowledge


class Detective(EliminationBot):
    """Bot that knows everything that logically follows from the events it witnessed."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player, "logic")

    def observe_event(self, event: Event) -> None:
        self.knowledge.update(event)

    def candidates(self, cards: Sequence[str]) -> list[str]:
        # A card is a candidate if some consistent deal has it in the envelope.
        possible = self.knowledge.envelope_cards()
        return [card for card in cards if card in possible]
