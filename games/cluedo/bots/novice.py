"""The second rung: crosses off the cards it was shown."""

from __future__ import annotations

from collections.abc import Sequence

from arena import Event, Seat
from games.cluedo.bots.sleuth import Eliminator
from games.cluedo.rules.events import Unable


class Novice(Eliminator):
    """Crosses off its own cards and those it was shown.

    Of all that is said at the table it notices one thing: that nobody could refute it.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self._solved: set[str] = set()

    def watch(self, event: Event) -> None:
        everybody = self.game.num_players - 1
        if isinstance(event, Unable) and len(event.players) == everybody:
            asked = self.notebook.suggestion if self.notebook.in_turn == self.player else None
            self._solved.update(card for card in asked or () if not self.notebook.seen(card))

    def suspected(self, cards: Sequence[str]) -> list[str]:
        solved = [card for card in cards if card in self._solved]
        return solved or [card for card in cards if not self.notebook.seen(card)]
