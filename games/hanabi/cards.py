"""The deck of Hanabi: colours, ranks and the number of copies of each card."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

COLOURS = ("red", "yellow", "green", "white", "blue")
"""In the order of the Hanabi Learning Environment; a game of n colours uses the first n."""


@dataclass(frozen=True)
class HanabiDeck:
    """Deck with `colours` colours and the ranks 1 to `ranks`.

    A card is written as its colour's first letter and its rank: `R1`. Cards with the same text are
    copies of one *kind*. Kinds are numbered by colour, then by rank, from 0.
    """

    colours: int
    ranks: int

    @cached_property
    def colour_names(self) -> tuple[str, ...]:
        """The colours of this game."""
        return COLOURS[: self.colours]

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
