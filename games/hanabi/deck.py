"""Options and cards of Hanabi, and sets of kinds of cards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from arena.core.game import SeatOptions

Colour = Literal["red", "yellow", "green", "white", "blue"]
COLOURS: tuple[Colour, ...] = get_args(Colour)
"""Order of the Hanabi Learning Environment; a game of n colours uses the first n."""
Kinds = int
"""A set of kinds, as bits. Bots compare thousands of them for one decision."""


@dataclass(frozen=True)
class HanabiDeck:
    """Deck with `colours` colours and the ranks 1 to `ranks`.

    A card is written as its colour's first letter and its rank: `R1`. Cards with the same text are
    copies of one *kind*. Kinds are numbered by colour, then by rank, from 0.
    """

    colours: int
    ranks: int

    @cached_property
    def colour_names(self) -> tuple[Colour, ...]:
        """The colours of this game."""
        return COLOURS[: self.colours]

    @cached_property
    def hints(self) -> tuple[str, ...]:
        """The names of hints: the colours, then `rank 1`, `rank 2` and so on."""
        return (*self.colour_names, *(f"rank {rank}" for rank in range(1, self.ranks + 1)))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """All kinds of cards, by number."""
        ranks = range(1, self.ranks + 1)
        return tuple(f"{name[0].upper()}{rank}" for name in self.colour_names for rank in ranks)

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each kind."""
        return {kind: number for number, kind in enumerate(self.kinds)}

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """Copies of each kind: three of rank 1, one of the highest rank, two of the others."""
        # With a single rank there are three copies of it, as in the Hanabi Learning Environment.
        by_rank = [3] + [2] * (self.ranks - 2) + [1] * (self.ranks > 1)
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

    def colour_name(self, card: str) -> Colour:
        """Return the colour of a card in words."""
        return self.colour_names[self.colour(card)]

    @cached_property
    def hint_bits(self) -> dict[str, int]:
        """The two hints that name each kind, as bits in the order of `hints`."""
        return {c: 1 << self.colour(c) | 1 << self.colours + self.rank(c) - 1 for c in self.kinds}

    @cached_property
    def named_by(self) -> dict[str, Kinds]:
        """The kinds that each hint names."""
        cards = list(enumerate(self.hint_bits.values()))
        return {
            hint: sum((bits >> number & 1) << kind for kind, bits in cards)
            for number, hint in enumerate(self.hints)
        }

    def names_in(self, kinds: Kinds) -> tuple[list[Colour], list[int]]:
        """Return the colours and the ranks of these kinds."""
        ranks = [rank for rank in range(1, self.ranks + 1) if kinds & self.named_by[f"rank {rank}"]]
        return [name for name in self.colour_names if kinds & self.named_by[name]], ranks


class HanabiOptions(SeatOptions):
    """Options of `hanabi`; the defaults are the rules of the card game."""

    players: int = Field(2, ge=2, le=5, description="Number of seats.")
    colours: int = Field(5, ge=1, le=5, description="Number of colours.")
    ranks: int = Field(5, ge=1, le=5, description="Highest rank of a card.")
    hand_size: int = Field(
        0, ge=0, le=5, description="Cards per hand; 0 means 5, or 4 for 4 or 5 players."
    )
    hint_tokens: int = Field(8, ge=1, le=8, description="Hint tokens: at the start, and at most.")
    lives: int = Field(3, ge=1, le=3, description="Wrong plays that end the game.")

    @property
    def cards_per_hand(self) -> int:
        """Number of cards in a full hand."""
        # The rules of the card game: four cards each from four players on.
        return self.hand_size or (5 if self.players < 4 else 4)

    @model_validator(mode="after")
    def _deck_suffices(self) -> Self:
        size = HanabiDeck(self.colours, self.ranks).size
        # As in the Hanabi Learning Environment, the deck may be empty after the deal.
        if self.players * self.cards_per_hand > size:
            raise ValueError(
                f"{self.players} hands of {self.cards_per_hand} cards need more than the deck's "
                f"{size}: set a smaller hand_size, or more colours or ranks"
            )
        return self
