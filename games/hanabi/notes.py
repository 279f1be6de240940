"""All that one viewer of Hanabi knows of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from arena import Event, Notes
from games.hanabi.deck import Kinds
from games.hanabi.rules import (
    CardDiscarded,
    CardDrawn,
    CardPlayed,
    Hanabi,
    HandsDealt,
    HandSeen,
    HintGiven,
    UnseenCardDrawn,
)


class HeldCard(NamedTuple):
    """A card in a hand, and what the hints about it say."""

    card: str | None
    """None if the viewer does not see it."""
    kinds: Kinds
    """Kinds that it may have by the hints."""
    hinted: bool = False
    """True if a hint has named it. Other hints only exclude their colour or rank."""
    meaning: Kinds = -1
    """Kinds that it may have by what players have agreed on; -1 is the set of all."""

    def after_hint(self, shown: Kinds, named: bool) -> HeldCard:
        """Return the card after a hint of these kinds that names it, or does not name it."""
        # A hint also says of the cards that it does not name that they differ.
        kinds = self.kinds & shown if named else self.kinds & ~shown
        return HeldCard(self.card, kinds, self.hinted or named, self.meaning)


@dataclass(frozen=True, slots=True)
class Prospects:
    """Sets of kinds by what they are still worth, as all players know."""

    left: Kinds
    """Kinds of which copies are in the hands or in the deck."""
    fitting: Kinds
    """Kinds that can be played now."""
    useless: Kinds
    """Kinds that can score no more: played, or above a rank that is out of the game."""
    last_copies: Kinds
    """Kinds that can still score, with one copy left."""


class HanabiNotes(Notes):
    """Fireworks, tokens, lives, discards and hands, from the events that a viewer witnessed.

    Values are replaced, never changed in place, so that a copy is a table of its own. The number of
    the player matters to texts only: the events decide which cards are known.
    """

    game: Hanabi

    def __init__(self, game: Hanabi, player: int) -> None:
        super().__init__(game, player)
        deck = game.deck
        self.everything: Kinds = (1 << len(deck.kinds)) - 1
        self.fireworks = (0,) * deck.colours
        self.lives = game.options.lives
        self.tokens = game.options.hint_tokens
        self.deck = deck.size
        self.hands: tuple[tuple[HeldCard, ...], ...] = ((),) * game.num_players
        """The cards of each player, the oldest first."""
        self.gone = (0,) * len(deck.kinds)
        """Copies of each kind that were played or discarded."""
        self.discards: tuple[str, ...] = ()
        """Cards that were discarded or did not fit, in order."""
        self.prospects = self._judge_kinds()

    def update(self, event: Event) -> None:
        match event:
            case HintGiven(_, target):
                self.tokens = event.tokens
                shown = self.game.deck.named_by[event.value]
                hand = [
                    held.after_hint(shown, slot in event.slots)
                    for slot, held in enumerate(self.hands[target], 1)
                ]
                self._set_hand(target, tuple(hand))
            case CardPlayed() | CardDiscarded():
                self._add_move(event)
            case CardDrawn(player, card, deck):
                self._draw(player, card, deck)
            case UnseenCardDrawn(player, deck) if deck < self.deck:
                # A viewer of everything has already added the card, from `CardDrawn`.
                self._draw(player, None, deck)
            case HandsDealt(hand_size, deck):
                # The hands that the viewer sees follow in events of their own.
                unknown = (HeldCard(None, self.everything),) * hand_size
                self.hands, self.deck = (unknown,) * self.game.num_players, deck
            case HandSeen(player, cards):
                seen = [HeldCard(card, self.everything) for card in cards]
                self._set_hand(player, tuple(seen))

    def _add_move(self, move: CardPlayed | CardDiscarded) -> None:
        self.tokens = move.tokens
        deck, card, hand = self.game.deck, move.card, self.hands[move.player]
        # The newer cards move down by one slot.
        self._set_hand(move.player, (*hand[: move.slot - 1], *hand[move.slot :]))
        kind = deck.index[card]
        self.gone = (*self.gone[:kind], self.gone[kind] + 1, *self.gone[kind + 1 :])
        if isinstance(move, CardPlayed):
            self.lives = move.lives
        if isinstance(move, CardPlayed) and move.fits:
            colour, rank = deck.colour(card), deck.rank(card)
            self.fireworks = (*self.fireworks[:colour], rank, *self.fireworks[colour + 1 :])
        else:
            self.discards += (card,)
        self.prospects = self._judge_kinds()

    def _draw(self, player: int, card: str | None, deck: int) -> None:
        self._set_hand(player, (*self.hands[player], HeldCard(card, self.everything)))
        self.deck = deck

    def _set_hand(self, player: int, hand: tuple[HeldCard, ...]) -> None:
        self.hands = (*self.hands[:player], hand, *self.hands[player + 1 :])

    @property
    def score(self) -> int:
        """The common score so far."""
        return self.game.score(self.fireworks, self.lives)

    def _judge_kinds(self) -> Prospects:
        deck = self.game.deck
        left = fitting = useless = last = 0
        for colour, done in enumerate(self.fireworks):
            reachable = True
            for rank in range(1, deck.ranks + 1):
                kind = colour * deck.ranks + rank - 1
                copies = deck.copies[kind] - self.gone[kind]
                left |= bool(copies) << kind
                # Above a rank without copies, nothing can be played any more.
                reachable = reachable and (rank <= done or copies > 0)
                if rank <= done or not reachable:
                    useless |= 1 << kind
                    continue
                fitting |= (rank == done + 1) << kind
                last |= (copies == 1) << kind
        return Prospects(left, fitting, useless, last)

    @property
    def unseen(self) -> list[int]:
        """Copies of each kind that the viewer has not seen: in the deck or in its own hand."""
        left = [n - gone for n, gone in zip(self.game.deck.copies, self.gone, strict=True)]
        for hand in self.hands:
            for held in hand:
                if held.card is not None:
                    left[self.game.deck.index[held.card]] -= 1
        return left
