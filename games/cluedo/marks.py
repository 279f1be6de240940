"""The card grid: who is seen to have a card, and who to lack it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena import Event
from games.cluedo.events import (
    Accused,
    CardShown,
    Dealt,
    EnvelopeSeen,
    HandDealt,
    Suggested,
    Unable,
)

if TYPE_CHECKING:
    from games.cluedo.game import Cluedo


class Marks:
    """What a viewer of these events has seen of each card: who has it, who lacks it."""

    def __init__(self, game: Cluedo, events: Sequence[Event]) -> None:
        self.has: set[tuple[str, int]] = set()
        self.lacks: set[tuple[str, int]] = set()
        self.open_cards: Sequence[str] = ()
        self.out: set[int] = set()
        """Seats that have made a false accusation."""
        envelope = game.num_players
        suggestion: Sequence[str] = ()
        for event in events:
            match event:
                case Dealt(open_cards=cards):
                    self.open_cards = cards
                case HandDealt(player, cards):
                    self.has.update((card, player) for card in cards)
                case CardShown(player, card=card):
                    self.has.add((card, player))
                case Suggested():
                    suggestion = event.triple
                case Unable(players):
                    self.lacks.update((card, player) for card in suggestion for player in players)
                case EnvelopeSeen(envelope=cards):
                    self.has.update((card, envelope) for card in cards)
                case Accused(player, correct=False):
                    self.out.add(player)
                case Accused(correct=True):
                    self.has.update((card, envelope) for card in event.triple)
                case _:
                    pass
        self.suggestion = suggestion
        self._settle(game)

    def _settle(self, game: Cluedo) -> None:
        """A card that is somewhere is nowhere else; three unplaced ones are the envelope."""
        envelope, cards = game.num_players, game.deck.cards
        placed = {card for card, _ in self.has} | set(self.open_cards)
        if len(placed) == len(cards) - 3:
            self.has.update((card, envelope) for card in cards if card not in placed)
        for card, holder in tuple(self.has):
            self.lacks.update((card, other) for other in range(envelope + 1) if other != holder)
        self.lacks.update((c, h) for c in self.open_cards for h in range(envelope + 1))

    def sign(self, card: str, holder: int) -> str:
        """X for a card that is there, - for one that is not, a dot where nothing was seen."""
        if (card, holder) in self.has:
            return "X"
        return "-" if (card, holder) in self.lacks else "."
