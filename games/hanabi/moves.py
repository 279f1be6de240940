"""Cards, options, actions and events of Hanabi.

Slots are numbered from 1, the oldest card first. When a card leaves a hand, the newer ones move
down by one, and the new card gets the highest number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from pydantic import Field, model_validator

from arena import Action, Event
from arena.core.event import PrivateEvent
from arena.core.game import SeatOptions

COLOURS = ("red", "yellow", "green", "white", "blue")
"""Order of the Hanabi Learning Environment; a game of n colours uses the first n."""
MULTICOLOUR = "multicolour"
"""The suit of the option `rainbow`; it is the last one."""
Kinds = int
"""A set of kinds, as bits. Bots compare thousands of them for one decision."""


def as_kinds(flags: Iterable[bool]) -> Kinds:
    """Return the set of the kinds whose flag is true."""
    return sum(1 << kind for kind, flag in enumerate(flags) if flag)


@dataclass(frozen=True)
class HanabiDeck:
    """Deck with `colours` colours and the ranks 1 to `ranks`.

    A card is written as its colour's first letter and its rank: `R1`. Cards with the same text are
    copies of one *kind*. Kinds are numbered by colour, then by rank, from 0.
    """

    colours: int
    """The multicolour is one of them."""
    ranks: int
    rainbow: bool = False

    @cached_property
    def hint_colours(self) -> tuple[str, ...]:
        """The colours that a hint can name."""
        return COLOURS[: self.colours - self.rainbow]

    @cached_property
    def hints(self) -> tuple[str | int, ...]:
        """The colours, then the ranks that a hint can name."""
        return (*self.hint_colours, *range(1, self.ranks + 1))

    @cached_property
    def colour_names(self) -> tuple[str, ...]:
        """The colours of this game."""
        return (*self.hint_colours, *([MULTICOLOUR] if self.rainbow else []))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """All kinds of cards, by number."""
        return tuple(
            f"{colour[0].upper()}{rank}"
            for colour in self.colour_names
            for rank in range(1, self.ranks + 1)
        )

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each kind."""
        return {kind: number for number, kind in enumerate(self.kinds)}

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """Copies of each kind: three of rank 1, one of the highest rank, two of the others."""
        # With a single rank there are three copies of it, as in the Hanabi Learning Environment.
        by_rank = [3] + [2] * (self.ranks - 2) + [1] * (self.ranks > 1)
        # Kinds are numbered by colour first, so the copies of one colour are repeated.
        return tuple(by_rank * self.colours)

    @cached_property
    def size(self) -> int:
        """Number of cards."""
        return sum(self.copies)

    def colour(self, card: str) -> int:
        """Return the number of a card's colour, from 0."""
        return self.index[card] // self.ranks

    def rank(self, card: str) -> int:
        """Return the rank of a card, from 1."""
        return self.index[card] % self.ranks + 1

    def words(self, card: str) -> str:
        """Return the colour and the rank of a card in words: `green 2`."""
        return f"{self.colour_names[self.colour(card)]} {self.rank(card)}"

    @cached_property
    def hints_on(self) -> dict[str, frozenset[str | int]]:
        """The colours and the rank whose hints name each kind."""
        found = dict[str, frozenset[str | int]]()
        for kind in self.kinds:
            name = self.colour_names[self.colour(kind)]
            # Every colour names a multicoloured card.
            names = self.hint_colours if name == MULTICOLOUR else (name,)
            found[kind] = frozenset((*names, self.rank(kind)))
        return found

    @cached_property
    def named_by(self) -> dict[str | int, Kinds]:
        """The kinds that each hint of a colour or rank names."""
        return {
            name: as_kinds(name in self.hints_on[kind] for kind in self.kinds)
            for name in self.hints
        }

    @cached_property
    def hint_bits(self) -> dict[str, int]:
        """The hints that name each kind, as bits in the order of `hints`."""
        return {
            kind: sum(1 << number for number, name in enumerate(self.hints) if name in names)
            for kind, names in self.hints_on.items()
        }

    def colours_of(self, kinds: Kinds) -> list[int]:
        """Return the colours of these kinds, from 0."""
        every_rank = (1 << self.ranks) - 1
        return [c for c in range(self.colours) if kinds >> c * self.ranks & every_rank]

    def ranks_of(self, kinds: Kinds) -> list[int]:
        """Return the ranks of these kinds, from 1."""
        return [rank for rank in range(1, self.ranks + 1) if kinds & self.named_by[rank]]

    def hint_given(
        self, player: int, hint: HanabiHint, hand: Iterable[str | None], tokens: int
    ) -> HintGiven:
        """Return the event of a hint to a hand that is seen.

        Args:
            player: The player who gives the hint.
            hint: The hint.
            hand: The cards of its receiver.
            tokens: Hint tokens left after it.
        """
        colour = hint.colour if isinstance(hint, HintColour) else None
        rank = None if isinstance(hint, HintColour) else hint.rank
        name, on = colour or rank, self.hints_on
        slots = [slot for slot, card in enumerate(hand, 1) if card is not None and name in on[card]]
        return HintGiven(player, hint.target, colour, rank, tuple(slots), tokens)

    def fits(self, card: str, fireworks: tuple[int, ...]) -> bool:
        """Return whether a card continues the firework of its colour.

        Args:
            card: The card that is played.
            fireworks: The highest rank played so far in each colour.
        """
        # A card fits on the one that is lower by exactly one.
        return fireworks[self.colour(card)] == self.rank(card) - 1

    def needed(self, gone: tuple[int, ...], fireworks: tuple[int, ...]) -> tuple[bool, ...]:
        """Return for each kind whether it can still score.

        A kind is useless if it has been played, or if all copies of a lower rank of its colour are
        out of the game.

        Args:
            gone: Copies of each kind that were played or discarded.
            fireworks: The highest rank played so far in each colour.
        """
        flags = list[bool]()
        for done in fireworks:
            reachable = True
            for rank in range(1, self.ranks + 1):
                kind = len(flags)
                left = self.copies[kind] > gone[kind]
                # Above a rank without copies, nothing can be played any more.
                reachable &= rank <= done or left
                flags.append(rank > done and reachable)
        return tuple(flags)


class HanabiOptions(SeatOptions):
    """Options of `hanabi`; the defaults are the rules of the card game."""

    players: int = Field(2, ge=2, le=5, description="Number of seats.")
    colours: int = Field(5, ge=1, le=5, description="Number of colours.")
    ranks: int = Field(5, ge=1, le=5, description="Highest rank of a card.")
    rainbow: bool = Field(
        False,
        description="Adds a multicoloured suit: a hint of any colour names its cards too, and no "
        "hint names them alone.",
    )
    hand_size: int = Field(
        0, ge=0, le=5, description="Cards per hand; 0 means 5, or 4 for 4 or 5 players."
    )
    hint_tokens: int = Field(8, ge=1, le=8, description="Hint tokens: at the start, and at most.")
    empty_hints: bool = Field(False, description="Whether a hint may name no card.")
    lives: int = Field(3, ge=1, le=3, description="Wrong plays that end the game.")

    @property
    def deck(self) -> HanabiDeck:
        """The cards of this game."""
        return HanabiDeck(self.colours + self.rainbow, self.ranks, self.rainbow)

    @property
    def cards_per_hand(self) -> int:
        """Number of cards in a full hand."""
        # The rules of the card game: four cards each from four players on.
        return self.hand_size or (5 if self.players < 4 else 4)

    @model_validator(mode="after")
    def _deck_suffices(self) -> Self:
        # As in the Hanabi Learning Environment, the deck may be empty after the deal.
        size = self.deck.size
        if self.players * self.cards_per_hand > size:
            raise ValueError(
                f"{self.players} hands of {self.cards_per_hand} cards need more than the deck's "
                f"{size}: set a smaller hand_size, or more colours or ranks"
            )
        return self


@dataclass(frozen=True, slots=True)
class HanabiDeal(Action):
    """Chance: deal the first hands."""

    hands: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return "deal " + " | ".join(" ".join(hand) for hand in self.hands)


@dataclass(frozen=True, slots=True)
class DrawCard(Action, template="draw {self.card}"):
    """Chance: the player who has played or discarded draws a card."""

    card: str


@dataclass(frozen=True, slots=True)
class PlaySlot(Action, template="play slot {self.slot}"):
    """Play a card of the own hand, without having seen it."""

    slot: int


@dataclass(frozen=True, slots=True)
class DiscardSlot(Action, template="discard slot {self.slot}"):
    """Discard a card of the own hand; this recovers a hint token."""

    slot: int


@dataclass(frozen=True, slots=True)
class HintColour(Action, template="hint Player {self.target} {self.colour}"):
    """Show another player all its cards of one colour."""

    target: int
    colour: str


@dataclass(frozen=True, slots=True)
class HintRank(Action, template="hint Player {self.target} rank {self.rank}"):
    """Show another player all its cards of one rank."""

    target: int
    rank: int


HanabiHint = HintColour | HintRank


@dataclass(frozen=True, slots=True)
class HandsDealt(Event):
    """Public: each player has its first hand."""

    hand_size: int
    deck: int
    """Cards left in the deck."""


@dataclass(frozen=True, slots=True)
class HandSeen(Event):
    """Private: the first hand of a player, for all others."""

    player: int
    cards: tuple[str, ...]
    viewers: tuple[int, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return self.viewers


@dataclass(frozen=True, slots=True)
class CardDrawn(Event):
    """Private: the card that a player has drawn, for all others."""

    player: int
    card: str
    deck: int
    """Cards left in the deck."""
    viewers: tuple[int, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return self.viewers


@dataclass(frozen=True, slots=True)
class UnseenCardDrawn(PrivateEvent):
    """Private: for the player who has drawn a card and does not see it."""

    is_partial: ClassVar[bool] = True

    deck: int
    """Cards left in the deck."""


@dataclass(frozen=True, slots=True)
class CardPlayed(Event):
    """Public: a card is played; it fits, or a life is lost."""

    player: int
    slot: int
    card: str
    fits: bool
    lives: int
    """Lives left."""
    tokens: int
    """Hint tokens left."""


@dataclass(frozen=True, slots=True)
class CardDiscarded(Event):
    """Public: a card is discarded."""

    player: int
    slot: int
    card: str
    tokens: int
    """Hint tokens left."""


@dataclass(frozen=True, slots=True)
class HintGiven(Event):
    """Public: a hint. All slots with the colour or rank are named, and no others."""

    player: int
    target: int
    colour: str | None
    """The colour that is named; None in a hint of a rank."""
    rank: int | None
    slots: tuple[int, ...]
    tokens: int
    """Hint tokens left."""

    @property
    def name(self) -> str | int:
        """The colour or rank, as in `HanabiDeck.hints`."""
        return self.colour or self.rank or 0
