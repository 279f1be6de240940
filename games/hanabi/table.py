"""The table as one viewer sees it, kept up to date event by event, and other possible histories."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from arena import CHANCE, Action, ArraySpec, Event, GameArrays, Notes, Observation, Placement, Step
from games.hanabi.game import Hanabi
from games.hanabi.moves import (
    CardDiscarded,
    CardDrawn,
    CardPlayed,
    DiscardSlot,
    DrawCard,
    HanabiDeal,
    HandsDealt,
    HandSeen,
    HintGiven,
    Kinds,
    PlaySlot,
    UnseenCardDrawn,
)
from games.hanabi.posterior import HandPosterior

if TYPE_CHECKING:
    from numpy.typing import NDArray


Move = CardPlayed | CardDiscarded | HintGiven
FITS = ("fits now", "fits later", "useless")
"""Columns of the table of an unseen hand for viewers."""


@dataclass(frozen=True, slots=True)
class HeldCard:
    """A card in a hand, and what the hints about it say."""

    card: str | None
    """None if the viewer does not see it."""
    kinds: Kinds
    """Kinds that it may have by the hints."""
    hinted: bool
    """True if a hint has named it. Other hints only exclude their colour or rank."""
    row: bytes
    """The set `kinds` as bytes: 1 for each kind in it, else 0."""

    def after_hint(self, shown: Kinds, named: bool) -> HeldCard:
        """Return the card after a hint of some kinds that names it, or does not name it."""
        # A hint also says of the cards that it does not name that they differ.
        kinds = self.kinds & shown if named else self.kinds & ~shown
        return held_card(self.card, kinds, self.hinted or named, len(self.row))


@cache
def held_card(card: str | None, kinds: Kinds, hinted: bool, number: int) -> HeldCard:
    """Return a card of a game with this number of kinds.

    All equal cards are one object: to look it up is faster than to make it.
    """
    return HeldCard(card, kinds, hinted, bytes(kinds >> kind & 1 for kind in range(number)))


class HanabiTable:
    """Fireworks, tokens, lives, discards and hands, from the events that a viewer witnessed.

    Args:
        game: The game that is played.
        viewer: The seat of the viewer; None sees all hands.
    """

    def __init__(self, game: Hanabi, viewer: int | None) -> None:
        self.game = game
        self.viewer = viewer
        deck = game.deck
        self._everything: Kinds = (1 << len(deck.kinds)) - 1
        self.fireworks = (0,) * deck.colours
        self.lives = game.options.lives
        self.tokens = game.options.hint_tokens
        self.deck = deck.size
        self.hands: list[tuple[HeldCard, ...]] = [()] * game.num_players
        """The cards of each player, the oldest first."""
        self.gone = (0,) * len(deck.kinds)
        """Copies of each kind that were played or discarded."""
        self.discards: tuple[str, ...] = ()
        """Cards that were discarded or did not fit, in order."""
        self.moves: dict[int, Move] = {}
        """The latest move of each player."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        if isinstance(event, Move):  # The most frequent ones.
            self._add_move(event)
        elif isinstance(event, CardDrawn):
            self.hands[event.player] += (self._new(event.card),)
            self.deck = event.deck
        elif isinstance(event, UnseenCardDrawn):
            # A viewer who sees everything has already added the card, from `CardDrawn`.
            if event.deck < self.deck:
                self.hands[event.player] += (self._new(None),)
                self.deck = event.deck
        elif isinstance(event, HandsDealt):
            # The hands that the viewer sees follow in events of their own.
            self.hands = [(self._new(None),) * event.hand_size] * self.game.num_players
            self.deck = event.deck
        elif isinstance(event, HandSeen):
            self.hands[event.player] = tuple(map(self._new, event.cards))

    def _add_move(self, move: Move) -> None:
        self.moves[move.player] = move
        self.tokens = move.tokens
        if isinstance(move, HintGiven):
            self._add_hint(move)
            return
        deck, card, hand = self.game.deck, move.card, self.hands[move.player]
        # The newer cards move down by one slot.
        self.hands[move.player] = (*hand[: move.slot - 1], *hand[move.slot :])
        kind = deck.index[card]
        self.gone = (*self.gone[:kind], self.gone[kind] + 1, *self.gone[kind + 1 :])
        if isinstance(move, CardPlayed):
            self.lives = move.lives
            if move.fits:
                colour, rank = deck.colour(card), deck.rank(card)
                self.fireworks = (*self.fireworks[:colour], rank, *self.fireworks[colour + 1 :])
                return
        # Reached by discards and by cards that do not fit.
        self.discards += (card,)

    def _add_hint(self, hint: HintGiven) -> None:
        shown, slots = self.game.deck.named_by[hint.name], hint.slots
        hand = enumerate(self.hands[hint.target], 1)
        self.hands[hint.target] = tuple(
            [held.after_hint(shown, slot in slots) for slot, held in hand]
        )

    def _new(self, card: str | None) -> HeldCard:
        return held_card(card, self._everything, False, len(self.gone))

    @property
    def score(self) -> int:
        """The common score so far."""
        return self.game.score(self.fireworks, self.lives)

    @property
    def needed(self) -> tuple[bool, ...]:
        """Whether each kind can still score."""
        return self.game.deck.needed(self.gone, self.fireworks)

    @property
    def playable(self) -> NDArray[np.bool_]:
        """Whether each kind fits now; shape (kinds,)."""
        deck = self.game.deck
        return np.array([deck.fits(kind, self.fireworks) for kind in deck.kinds])

    @property
    def critical(self) -> NDArray[np.bool_]:
        """Whether each kind can still score and only one copy is left in the game; (kinds,)."""
        # Copies that are still in hands or in the deck.
        left = np.array(self.game.deck.copies) - np.array(self.gone)
        critical: NDArray[np.bool_] = (left == 1) & np.array(self.needed)
        return critical

    def allowed(self, player: int) -> NDArray[np.bool_]:
        """Return for each slot of a hand the kinds that the hints allow; shape (slots, kinds)."""
        rows = [held.row for held in self.hands[player]]
        return np.frombuffer(b"".join(rows), bool).reshape(len(rows), len(self.game.deck.kinds))

    @property
    def unseen(self) -> tuple[int, ...]:
        """Copies of each kind that the viewer has not seen: in the deck or in its own hand."""
        # Own cards are `None` here, so they stay among the unseen ones.
        left = [n - gone for n, gone in zip(self.game.deck.copies, self.gone, strict=True)]
        for player, hand in enumerate(self.hands):
            for held in hand:
                if player != self.viewer and held.card is not None:
                    left[self.game.deck.index[held.card]] -= 1
        return tuple(left)

    def posterior(self) -> HandPosterior:
        """Return the exact distribution of the viewer's own hand."""
        assert self.viewer is not None, "a viewer who sees everything has no unknown hand"
        return HandPosterior(self.unseen, self.allowed(self.viewer))

    def with_hint(self, hint: HintGiven) -> Self:
        """Return the table after a hint that is only considered."""
        # All other values are replaced, never changed in place.
        twin = copy.copy(self)
        twin.hands, twin.moves = list(self.hands), dict(self.moves)
        twin.update(hint)
        return twin


class HanabiNotes(Notes):
    """The table as one player sees it, for the renderings of its observations."""

    def __init__(self, game: Hanabi, player: int) -> None:
        super().__init__(game, player)
        self.table = HanabiTable(game, player)

    def update(self, event: Event) -> None:
        self.table.update(event)


class HanabiKnowledge:
    """Exact knowledge of one player: the distribution of its own hand.

    It follows from the cards that the player sees, the cards that are gone, and the hints. Why
    others gave a hint, or did not, is not evidence.
    """

    def __init__(self, game: Hanabi, player: int) -> None:
        self.table = HanabiTable(game, player)
        # Computed on demand, and again after the next event.
        self._posterior: HandPosterior | None = None
        self._marginals: NDArray[np.float64] | None = None

    def update(self, event: Event) -> None:
        self.table.update(event)
        self._posterior = self._marginals = None

    @property
    def posterior(self) -> HandPosterior:
        """The distribution of the own hand now."""
        if self._posterior is None:
            self._posterior = self.table.posterior()
        return self._posterior

    @property
    def marginals(self) -> NDArray[np.float64]:
        """The probability of each kind in each own slot; shape (slots, kinds)."""
        if self._marginals is None:
            self._marginals = self.posterior.marginals()
        return self._marginals

    def entropy(self) -> float:
        """Return the entropy of the own hand, as a sequence of kinds, in bits."""
        return self.posterior.entropy()

    def world_count(self) -> int:
        """Return the number of possible own hands, as sequences of kinds."""
        return self.posterior.hand_count()

    def placement(self) -> Placement:
        """Return for each slot the probability that its card fits now, later, or never.

        An empty slot has no row.
        """
        size, needed = self.table.game.hand_size, np.array(self.table.needed)
        fits, marginals = self.table.playable & needed, self.marginals
        # Each kind belongs to exactly one column, so a row adds up to 1.
        columns = np.array([fits, needed & ~fits, ~needed]).T
        rows = [tuple(row) for row in (marginals @ columns).tolist()]
        slots = tuple(f"slot {slot}" for slot in range(1, size + 1))
        return Placement(slots, ("own hand",) * size, FITS, tuple(rows))


def replace_hand(
    game: Hanabi, history: Sequence[Step], player: int, hand: Sequence[str]
) -> list[Step]:
    """Return a history that deals the player the given cards in place of those that it holds now.

    It need not be legal. `hand` begins with the oldest card.
    """
    steps = list(history)
    for (number, place), card in zip(_origins(game, history, player), hand, strict=True):
        # Cards that were played or discarded stay: all players have seen them.
        action: Action = DrawCard(card)
        dealt = steps[number].action
        if isinstance(dealt, HanabiDeal):
            cards = dealt.hands[player]
            cards = (*cards[:place], card, *cards[place + 1 :])
            action = HanabiDeal((*dealt.hands[:player], cards, *dealt.hands[player + 1 :]))
        steps[number] = Step(CHANCE, action)
    return steps


def _origins(game: Hanabi, history: Sequence[Step], player: int) -> list[tuple[int, int]]:
    """Return for each card that the player holds the step that dealt it, and its place there."""
    origins: list[tuple[int, int]] = []
    mover = 0
    for number, step in enumerate(history):
        match step.action:
            case HanabiDeal():
                origins = [(number, place) for place in range(game.hand_size)]
            # The player who has moved last draws.
            case DrawCard() if mover == player:
                origins.append((number, 0))
            case PlaySlot(slot) | DiscardSlot(slot) if step.player == player:
                # The newer cards move down, as in the hand.
                del origins[slot - 1]
        if step.player != CHANCE:
            mover = step.player
    return origins


# Arrays


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

    @cached_property
    def _empty_hand(self) -> tuple[HeldCard, ...]:
        """Empty slots: cards that have no kind."""
        return (held_card(None, 0, False, len(self.game.deck.kinds)),) * self.game.hand_size

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: HanabiNotes = observation.notes  # type: ignore[assignment]
        table, one_hot, empty = notes.table, self._one_hot, self._empty_hand
        # Row 0 is the observer, as in the canonical observations of the learning environment.
        seats = (notes.player, *self.game.others(notes.player))
        # A hand is shorter while its owner waits for a card, and in the last round.
        size = len(empty)
        slots = [held for seat in seats for held in (table.hands[seat] + empty)[:size]]
        parts: tuple[bytes | bytearray, ...] = (
            # The own cards are unknown, so the observer has no row here.
            b"".join([one_hot[held.card] for held in slots[size:]]),
            bytes([held is not empty[0] for held in slots]),
            b"".join([held.row for held in slots]),
            bytes([held.hinted for held in slots]),
            bytes(table.fireworks),
            bytes(table.gone),
            bytes((table.tokens, table.lives, table.deck)),
            *[_move_row(table, seat) for seat in seats],
        )
        return self._from_block(bytearray().join(parts))


def _move_row(table: HanabiTable, player: int) -> bytearray:
    """Return the row of `moves` of one player."""
    deck, row, move = table.game.deck, bytearray(5 + table.game.hand_size), table.moves.get(player)
    if isinstance(move, HintGiven):
        # Numbers start at 1, since 0 means that there is none.
        row[0] = 4 if move.rank else 3
        row[3] = (move.target - (table.viewer or 0)) % table.game.num_players + 1
        row[4] = move.rank or deck.hints.index(move.name) + 1
        # Columns 5 and later are the slots, which are numbered from 1.
        for slot in move.slots:
            row[4 + slot] = 1
    elif move is not None:
        row[1], row[2] = move.slot, deck.index[move.card] + 1
        row[0], row[4] = (1, move.fits) if isinstance(move, CardPlayed) else (2, 0)
    return row
