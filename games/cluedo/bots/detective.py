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
        # The column of the envelope: a card is a candidate if some consistent deal has it there.
        possible = self.knowledge.possible()[:, self.knowledge.envelope]
        return [card for card in cards if possible[self.game.deck.index[card]]]
