"""Classes of unknown cards that no constraint tells apart."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from games.cluedo.inference.constraints import Constraints, card_numbers
from games.cluedo.inference.hand_tables import Array


class CardClasses:
    """Classes of the unknown cards under propagated constraints.

    Attributes:
        constraints: The constraints, without the showings that mention no unknown card.
        constant_weight: The weight of those showings: it is the same for all deals.
        classes: The classes, as sets of cards, by category.
        sizes: The number of cards in each class.
        axes: Per category, the numbers of its classes.
    """

    def __init__(self, constraints: Constraints) -> None:
        self.constraints = constraints
        self.constant_weight = Fraction(1)
        placed = 0
        for holder in constraints.holders:
            placed |= holder.must
        self._unknown = constraints.cards & ~placed
        sets = self._sets()
        self.classes, self.axes = list[int](), list[list[int]]()
        for category in constraints.categories:
            groups = _split([category & self._unknown], sets)
            # Axes that most holders have come last: the arrays are then equal in long blocks.
            groups.sort(key=lambda cards: (self._num_holders(cards), -cards.bit_count(), cards))
            first = len(self.classes)
            self.classes += groups
            self.axes.append(list(range(first, len(self.classes))))
        self.sizes = [cards.bit_count() for cards in self.classes]

    def _sets(self) -> Iterable[int]:
        """Return all sets of cards that the constraints mention, each once."""
        # A dict is a set that keeps its order.
        sets = dict[int, None]()
        for holder in self.constraints.holders:
            sets[holder.may] = None
            sets |= dict.fromkeys(holder.clauses)
            possible = holder.may & self._unknown
            for shown in holder.showings:
                # No unknown card matters: the factor 1/k is the same for all deals.
                if not shown & possible:
                    self.constant_weight /= (shown & holder.must).bit_count()
            holder.showings = tuple(shown for shown in holder.showings if shown & possible)
            sets |= dict.fromkeys(holder.showings)
        # Each card of an excluded triple gets a class of its own.
        for triple in self.constraints.excluded:
            sets |= dict.fromkeys(1 << card for card in card_numbers(triple))
        return sets

    def _num_holders(self, cards: int) -> int:
        return sum(bool(holder.may & cards) for holder in self.constraints.holders)

    def numbers(self, cards: int) -> list[int]:
        """Return the numbers of the classes that have a card in the set, in ascending order."""
        return [place for place, members in enumerate(self.classes) if members & cards]

    def shape(self, places: Iterable[int] | None = None) -> list[int]:
        """Return the shape of arrays over all classes; other axes than `places` have length 1."""
        if places is None:
            return [size + 1 for size in self.sizes]
        shape = [1] * len(self.sizes)
        for place in places:
            shape[place] = self.sizes[place] + 1
        return shape

    def expand(self, values: Array) -> Array:
        """Return an array that may have axes of length 1 as a new flat one over all classes."""
        result: Array = np.empty(self.shape(), dtype=values.dtype)
        result[...] = values
        return result.reshape(-1)


def _split(groups: list[int], sets: Iterable[int]) -> list[int]:
    """Split groups of cards until each lies inside or outside every set."""
    for cards in sets:
        for place, group in enumerate(groups):
            inside = group & cards
            if inside and inside != group:
                groups[place] = inside
                groups.append(group & ~cards)  # Seen again by this loop, where it is outside.
    return [group for group in groups if group]
