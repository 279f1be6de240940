"""All that one viewer of Hanabi knows of the table, and its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from arena import ArraySpec, Event, GameArrays, Notes, Observation
from games.hanabi.deck import Kinds, Prospects, flags
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

if TYPE_CHECKING:
    from numpy.typing import NDArray


Move = CardPlayed | CardDiscarded | HintGiven


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
        self.moves: dict[int, Move] = {}
        """The latest move of each player."""
        self._prospects: Prospects | None = None

    def update(self, event: Event) -> None:
        match event:
            case HintGiven(player, target):
                self.moves = {**self.moves, player: event}
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
        self.moves = {**self.moves, move.player: move}
        self.tokens = move.tokens
        deck, card, hand = self.game.deck, move.card, self.hands[move.player]
        # The newer cards move down by one slot.
        self._set_hand(move.player, (*hand[: move.slot - 1], *hand[move.slot :]))
        kind = deck.index[card]
        self.gone = (*self.gone[:kind], self.gone[kind] + 1, *self.gone[kind + 1 :])
        self._prospects = None
        if isinstance(move, CardPlayed) and move.fits:
            colour, rank = deck.colour(card), deck.rank(card)
            self.fireworks = (*self.fireworks[:colour], rank, *self.fireworks[colour + 1 :])
            return
        if isinstance(move, CardPlayed):
            self.lives = move.lives
        self.discards += (card,)

    def _draw(self, player: int, card: str | None, deck: int) -> None:
        self._set_hand(player, (*self.hands[player], HeldCard(card, self.everything)))
        self.deck = deck

    def _set_hand(self, player: int, hand: tuple[HeldCard, ...]) -> None:
        self.hands = (*self.hands[:player], hand, *self.hands[player + 1 :])

    @property
    def score(self) -> int:
        """The common score so far."""
        return self.game.score(self.fireworks, self.lives)

    @property
    def prospects(self) -> Prospects:
        """Sets of kinds by what they are still worth, computed on demand."""
        if self._prospects is None:
            self._prospects = self.game.deck.prospects(self.gone, self.fireworks)
        return self._prospects

    @property
    def unseen(self) -> list[int]:
        """Copies of each kind that the viewer has not seen: in the deck or in its own hand."""
        left = [n - gone for n, gone in zip(self.game.deck.copies, self.gone, strict=True)]
        for hand in self.hands:
            for held in hand:
                if held.card is not None:
                    left[self.game.deck.index[held.card]] -= 1
        return left


class HanabiArrays(GameArrays):
    """Observations of Hanabi as arrays, in the style of the Hanabi Learning Environment.

    Its canonical encoder (Bard et al. 2020) makes one vector of bits; here each part of it is an
    array with a name. Seats are counted from the observer's own, in turn order.
    """

    game: Hanabi

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        """Return the specs of an observation's arrays; kinds are numbered as in `HanabiDeck`.

        - `hands` (players - 1, slots, kinds): 1 for the card that another player holds.
        - `held` (players, slots): 1 for a slot that holds a card.
        - `possible` (players, slots, kinds): 1 for a kind that the hints allow.
        - `hinted` (players, slots): 1 for a card that a hint has named.
        - `fireworks` (colours,): highest rank played. `gone` (kinds,): copies played or discarded.
        - `counters` (3,): hint tokens, lives, cards in the deck.
        - `moves` (players, 5 + slots): latest move of each player, 0 if there is none. Columns:
          kind of move (1 play, 2 discard, 3 hint of a colour, 4 hint of a rank), slot (from 1),
          kind of the card (from 1), hinted seat (from 1, counted from the observer), and 1 if the
          card fitted or the colour or rank (from 1) of a hint. The others: 1 for a slot that the
          hint named.
        """
        game = self.game
        players, slots, kinds = game.num_players, game.hand_size, len(game.deck.kinds)
        return {
            "hands": ArraySpec(shape=(players - 1, slots, kinds), low=0, high=1),
            "held": ArraySpec(shape=(players, slots), low=0, high=1),
            "possible": ArraySpec(shape=(players, slots, kinds), low=0, high=1),
            "hinted": ArraySpec(shape=(players, slots), low=0, high=1),
            "fireworks": ArraySpec(shape=(game.deck.colours,), low=0, high=game.deck.ranks),
            "gone": ArraySpec(shape=(kinds,), low=0, high=3),
            "counters": ArraySpec(shape=(3,), low=0, high=max(8, game.deck.size)),
            "moves": ArraySpec(shape=(players, 5 + slots), low=0, high=max(5, kinds)),
        }

    @cached_property
    def _one_hot(self) -> dict[str | None, bytes]:
        """The row of each card of the others in `hands`; without a card all are 0."""
        kinds = self.game.deck.kinds
        return {card: bytes(card == kind for kind in kinds) for card in (*kinds, None)}

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: HanabiNotes = observation.notes
        size, number, one_hot = self.game.hand_size, len(self.game.deck.kinds), self._one_hot
        # Row 0 is the observer, as in the canonical observations of the learning environment.
        seats = (notes.player, *self.game.others[notes.player])
        # A hand is shorter while its owner waits for a card, and in the last round; a card of no
        # kind is an empty slot.
        empty = (HeldCard(None, 0),) * size
        slots = [held for seat in seats for held in (notes.hands[seat] + empty)[:size]]
        parts: tuple[bytes | bytearray, ...] = (
            # The own cards are unknown, so the observer has no row here.
            b"".join([one_hot[held.card] for held in slots[size:]]),
            bytes([held.kinds > 0 for held in slots]),
            b"".join([flags(held.kinds, number) for held in slots]),
            bytes([held.hinted for held in slots]),
            bytes(notes.fireworks),
            bytes(notes.gone),
            bytes((notes.tokens, notes.lives, notes.deck)),
            *[_move_row(notes, seat) for seat in seats],
        )
        return self._from_block(bytearray().join(parts))


def _move_row(notes: HanabiNotes, player: int) -> bytearray:
    """Return the row of `moves` of one player; numbers start at 1, since 0 means none."""
    game, move = notes.game, notes.moves.get(player)
    row = bytearray(5 + game.hand_size)
    if isinstance(move, HintGiven):
        number, colours = game.deck.hints.index(move.value), game.deck.colours
        row[0], row[4] = (3, number + 1) if number < colours else (4, number - colours + 1)
        row[3] = (move.target - notes.player) % game.num_players + 1
        # Columns 5 and later are the slots, which are numbered from 1.
        for slot in move.slots:
            row[4 + slot] = 1
    elif move is not None:
        row[1], row[2] = move.slot, game.deck.index[move.card] + 1
        row[0], row[4] = (1, move.fits) if isinstance(move, CardPlayed) else (2, 0)
    return row
