"""The third rung: everything that logically follows."""

from __future__ import annotations

from collections.abc import Sequence

from arena import Event, Seat
from games.cluedo.bots.sleuth import Eliminator
from games.cluedo.inference.knowledge import CluedoKnowledge


class Detective(Eliminator):
    """Knows everything that logically follows from all it has heard."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player, "logic")

    def watch(self, event: Event) -> None:
        self.knowledge.update(event)

    def suspected(self, cards: Sequence[str]) -> list[str]:
        possible = self.knowledge.possible()[:, self.knowledge.envelope]
        return [card for card in cards if possible[self.game.deck.index[card]]]
