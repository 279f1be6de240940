"""The card grid of Cluedo: who visibly has or lacks each card, as one viewer has seen it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arena import Event, Panel, Tabletop
from games.cluedo.rules.events import (
    Accused,
    CardShown,
    Dealt,
    EnvelopeSeen,
    HandDealt,
    Suggested,
    Unable,
)
from games.cluedo.rules.setting import CluedoSetting


class Marks:
    """Marks of each card and holder, from the events that one viewer has witnessed.

    Holders are numbered like seats; the envelope has the next number. Marks show what was seen and
    the simplest consequences, not everything that follows.
    """

    def __init__(self, game: CluedoSetting, events: Iterable[Event] = ()) -> None:
        self.cards = game.deck.cards
        self.envelope = game.num_players
        self.has: set[tuple[str, int]] = set()
        self.lacks: set[tuple[str, int]] = set()
        self.open_cards: Sequence[str] = ()
        self.out: set[int] = set()
        """Seats with a false accusation."""
        self.suggestion: Sequence[str] = ()
        for event in events:
            self.update(event)

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        match event:
            case Dealt(open_cards=cards):
                self.open_cards = cards
                self._lack(cards, range(self.envelope + 1))
            case HandDealt(player, cards):
                self._place(cards, player)
                # A viewer that sees a hand sees all of it.
                self._lack([card for card in self.cards if card not in cards], [player])
            case CardShown(player, card=card):
                self._place((card,), player)
            case Suggested():
                self.suggestion = event.triple
            case Unable(players):
                self._lack(self.suggestion, players)
            case EnvelopeSeen(envelope=cards):
                self._place(cards, self.envelope)
            case Accused(player, correct=False):
                self.out.add(player)
            case Accused(correct=True):
                self._place(event.triple, self.envelope)
            case _:
                pass

    def _lack(self, cards: Sequence[str], holders: Sequence[int]) -> None:
        """Mark cards as missing from holders."""
        self.lacks.update((card, holder) for card in cards for holder in holders)

    def _place(self, cards: Sequence[str], holder: int) -> None:
        """Place cards with a holder, and so with no other.

        If all but three cards are placed, those three are the envelope.
        """
        self.has.update((card, holder) for card in cards)
        self._lack(cards, [other for other in range(self.envelope + 1) if other != holder])
        # Open cards have no holder, but they are not in the envelope either.
        placed = {card for card, _ in self.has}.union(self.open_cards)
        if len(placed) == len(self.cards) - 3 and not self.held_by(self.envelope):
            self._place([card for card in self.cards if card not in placed], self.envelope)

    def held_by(self, holder: int) -> list[str]:
        """Return the cards that this holder visibly has, in deck order."""
        return [card for card in self.cards if (card, holder) in self.has]

    def sign(self, card: str, holder: int) -> str:
        """Return X if the holder has the card, - if not, a dot if it is unknown."""
        if (card, holder) in self.has:
            return "X"
        return "-" if (card, holder) in self.lacks else "."


class CluedoView:
    """A card grid from witnessed events: X has the card, - does not have it, . unknown."""

    def __init__(self, game: CluedoSetting, seat: int | None) -> None:
        self._game = game
        self._marks = Marks(game)

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        self._marks.update(event)

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        cards, players = self._game.deck.cards, self._game.num_players
        width = max(map(len, cards))
        rows = [" " * width + "".join(f"  P{seat}" for seat in range(players)) + "  envelope"]
        for card in cards:
            signs = [self._marks.sign(card, holder) for holder in range(players + 1)]
            rows.append(f"{card:<{width}}   " + "   ".join(signs))
        return Tabletop((Panel("", lines=tuple(rows), fixed_width=True),))
