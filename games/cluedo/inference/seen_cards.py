"""What a seat has seen itself, without conclusions from several events."""

from __future__ import annotations

import math
from collections.abc import Sequence

from arena import Event
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import CardShown, Dealt, HandDealt, Suggested, Unable
from games.cluedo.rules.setting import CluedoSetting


class SeenCards:
    """Cards that a seat saw, and cards that its own unrefuted questions place in the envelope.

    Both follow from single events: it is what a player knows who takes notes and does not reason.
    Measures use it to tell positions apart by their difficulty: what a seat has seen depends on the
    table, how well it uses that should not.
    """

    def __init__(self, game: CluedoSetting, player: int) -> None:
        self._game, self._player = game, player
        self._seen: set[str] = set()
        self._solved: set[str] = set()
        self.holders: dict[str, int] = {}
        """Seats of the cards that it was shown; the envelope, `num_players`, of solved cards."""
        self._question: Triple | None = None
        """Its own latest question, while the answer is awaited."""
        self.entropy_dealt = 0.0
        """Entropy of the envelope after the deal, in bits."""

    def update(self, event: Event) -> None:
        """Process an event that the seat witnessed."""
        match event:
            case Dealt(open_cards=cards):
                self._seen.update(cards)
            case HandDealt(cards=cards):
                self._seen.update(cards)
                # The envelope is one unseen card of each category, all equally likely.
                self.entropy_dealt = sum(math.log2(len(left)) for left in self.candidates())
            case CardShown(player=player, suggester=self._player, card=card):
                self._seen.add(card)
                self.holders[card] = player
            case Suggested(player=player):
                self._question = event.triple if player == self._player else None
            case Unable(players=players) if len(players) == self._game.num_players - 1:
                # No other seat has a card of the question: each is its own or in the envelope.
                self._solved |= {*(self._question or ())} - self._seen
                self.holders |= dict.fromkeys(self._solved, self._game.num_players)

    def candidates(self) -> list[list[str]]:
        """Return, for each category, the cards that may be in the envelope."""
        return [self.candidates_among(cards) for cards in self._game.deck.categories]

    def candidates_among(self, cards: Sequence[str]) -> list[str]:
        """Return the cards, of one category, that may be in the envelope."""
        solved = [card for card in cards if card in self._solved]
        # A solved card is the only candidate of its category.
        return solved or [card for card in cards if card not in self._seen]

    @property
    def name_envelope(self) -> bool:
        """Whether one candidate is left in each category."""
        return all(len(left) == 1 for left in self.candidates())
