"""The second bot of four: it excludes the cards that it has seen."""

from __future__ import annotations

from collections.abc import Sequence

from arena import Event, Seat
from games.cluedo.bots.base import EliminationBot
from games.cluedo.rules.events import Unable


class Novice(EliminationBot):
    """Bot that excludes its own cards and those that it was shown.

    From the other events it draws one conclusion: if no seat can refute its own suggestion, the
    named cards that it has not seen are in the envelope.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self._solved: set[str] = set()

    def observe_event(self, event: Event) -> None:
        others = self.game.num_players - 1
        # All others were asked, so none of them can refute.
        if isinstance(event, Unable) and len(event.players) == others:
            own_turn = self.notebook.in_turn == self.player
            named = self.notebook.suggestion if own_turn else None
            self._solved.update(card for card in named or () if not self.notebook.seen(card))

    def candidates(self, cards: Sequence[str]) -> list[str]:
        solved = [card for card in cards if card in self._solved]
        # A solved card is the only candidate of its category.
        return solved or [card for card in cards if not self.notebook.seen(card)]
