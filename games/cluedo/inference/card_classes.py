"""Classes of unknown cards, tables of the hands over them, and sums over sets of cards.

A *class* is a set of unknown cards that no constraint tells apart. A hand is described by how many
cards of each class it has, so that one row of counts represents many hands of single cards. A class
of n alike cards is one axis of length n + 1: index s represents the sets that have s of its cards.
All sums are exact, in int64 modulo 2**64 or in Python's integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from games.cluedo.inference.constraints import Constraints, Holder, card_numbers


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


# Hands as counts per class


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Array = NDArray[Any]
"""Array of int64 or, if that is too narrow, of Python's integers (dtype object)."""


@dataclass(frozen=True, slots=True)
class HandTable:
    """The possible hands of one seat, as counts per class of unknown cards."""

    places: tuple[int, ...]
    """The number of the class of each column of `counts`."""
    counts: Ints
    """Shape (hands, places): cards of each class in each hand."""
    ways: Ints
    """Shape (hands,): the number of hands of single cards that each row represents."""
    weights: Ints
    """Shape (hands,): the scaled weight of a hand; 0 if it breaks a clause."""
    codes: Ints
    """Shape (hands,): the index of each hand in the flat array over the multisets of its classes,
    in ascending order of their numbers."""


@lru_cache(maxsize=1 << 9)
def all_hands(sizes: tuple[int, ...], total: int) -> tuple[Ints, Ints]:
    """Return all ways to take `total` cards from classes of these sizes, as read-only arrays.

    The first has shape (hands, classes); row r, column c is the number of cards of class c in
    hand r. The second has shape (hands,): the product over classes of C(size, count).
    """
    rows = np.zeros((1, len(sizes)), dtype=np.int64)
    sums = np.zeros(1, dtype=np.int64)
    ways = np.ones(1, dtype=np.int64)
    capacity = sum(sizes)  # Cards in the classes that are still to come.
    for place, size in enumerate(sizes):
        capacity -= size
        taken = np.arange(size + 1)
        # Each partial hand continues with 0, 1, …, size cards of this class.
        number = len(rows)
        rows = np.repeat(rows, size + 1, axis=0)
        sums = (sums[:, None] + taken).ravel()
        ways = (ways[:, None] * WAYS[size, taken]).ravel()
        # `repeat` and `tile` in step: `taken` varies fastest, as in `sums`.
        rows[:, place] = np.tile(taken, number)
        # Drop partial hands that are too large, or too small even with all cards to come.
        keep = (sums <= total) & (sums + capacity >= total)
        rows, sums, ways = rows[keep], sums[keep], ways[keep]
    # After the last class `capacity` is 0, so these lines matter only if there is no class.
    hands, ways = rows[sums == total], ways[sums == total]
    # The cache returns the same arrays to every caller.
    hands.setflags(write=False)
    ways.setflags(write=False)
    return hands, ways


@lru_cache(maxsize=1 << 9)
def card_totals(sizes: tuple[int, ...]) -> Ints:
    """Return the number of cards of each multiset, flat and read-only."""
    totals = np.zeros(1, dtype=np.int64)
    for size in sizes:
        totals = (totals[:, None] + np.arange(size + 1)).ravel()
    totals.setflags(write=False)
    return totals


def showing_scale(holder: Holder, shown: int) -> int:
    """Return the least integer that makes 1/k an integer for every possible count of matches k."""
    # k is at most the number of cards of the set that the holder may have.
    return lcm(*range(1, (shown & holder.may).bit_count() + 1))


def integer_dtype(greatest: int) -> Any:
    """Return the dtype for integers up to `greatest`: 64 bits, or Python's own integers."""
    # One bit is left beside the sign.
    return np.int64 if greatest < 2**62 else object


# WAYS[n, k] = binomial(n, k). The largest deck has 36 cards.
WAYS = np.array([[comb(n, k) for k in range(37)] for n in range(37)], dtype=np.int64)


# Sums over sets of cards


def subset_sums(values: Array, sizes: Sequence[int]) -> Array:
    """Return the sum over all subsets, flat; changes `values` (zeta transform).

    Args:
        values: Flat array over the multisets of the classes, in row-major order.
        sizes: The number of cards in each class.
    """
    inner = values.size
    for size in sizes:
        inner //= size + 1
        view = values.reshape(-1, size + 1, inner)
        # Index s becomes the sum over t of C(s, t) times index t.
        for first in range(1, size + 1):
            for place in range(size, first - 1, -1):
                view[:, place] += view[:, place - 1]  # Pascal's rule.
    return values


def superset_sums(values: Array, sizes: Sequence[int], kept: Sequence[int]) -> Array:
    """Return the signed sums over all supersets of the sets of `kept` classes, flat.

    A class outside `kept` has no card in such a set: its axis becomes one number, the sum over s of
    (-1)^(n-s) C(n, s) values[s].

    Args:
        values: Flat array over the multisets of all classes, in row-major order; may be changed.
        sizes: The number of cards in each class.
        kept: Numbers of the classes that keep their axis.
    """
    inner = values.size
    for number, size in enumerate(sizes):
        inner //= size + 1
        view = values.reshape(-1, size + 1, inner)
        # Index t becomes the difference of order n - t, by n differences of neighbours.
        for last in range(size, 0, -1):
            if number not in kept:
                view = view[:, 1:] - view[:, :-1]
                continue
            for place in range(last):
                np.subtract(view[:, place + 1], view[:, place], out=view[:, place])
        values = view.reshape(-1)
    return values


def sum_over_envelopes(weights: Array, choices: Sequence[Array]) -> Array:
    """Sum weights over all sets of cards, for each choice of the envelope.

    Shape (rows, sets) in, (rows, choices, choices, choices) out, an axis per category; `choices`
    are the matrices of `choice_signs`.
    """
    first, second, third = choices
    # One category after the other, from the last on.
    sums = weights.reshape(-1, third.shape[1]) @ third.T
    sums = second @ sums.reshape(-1, second.shape[1], len(third))
    sums = first @ sums.reshape(len(weights), first.shape[1], -1)
    result: Array = sums.reshape(len(weights), len(first), len(second), len(third))
    return result


@lru_cache(maxsize=1 << 10)
def choice_signs(classes: tuple[tuple[int, bool], ...], dtype: str) -> Array:
    """Return the signed weights of the sets of one category, shape (choices, sets).

    The classes have a size, and say whether the envelope may hold one of their cards. Choice 0 is
    an envelope with none of the cards, the next ones a card of each class that it may hold.
    Inclusion and exclusion over the s of n cards of a class that the set S has:

    - no card in the envelope: sum over s of (-1)^(n-s) C(n, s) weights[s],
    - one given card in it (s >= 1): sum over s of (-1)^(n-s) C(n-1, s-1) weights[s].
    """
    possible = [place for place, (_, may) in enumerate(classes) if may]
    rows = []
    for held in (None, *possible):
        row: Array = np.ones(1, dtype=np.int64)
        for place, (size, _) in enumerate(classes):
            t = int(place == held)
            signs = [
                (-1) ** (size - s) * comb(size - t, s - t) if s >= t else 0 for s in range(size + 1)
            ]
            row = np.kron(row, np.array(signs, dtype=np.int64))
        rows.append(row)
    matrix: Array = np.array(rows).astype(dtype)
    matrix.setflags(write=False)
    return matrix


def part(values: Array, axis: int, start: int, stop: int | None = None) -> Array:
    """Return the view `start:stop` of one axis."""
    return values[(slice(None),) * axis + (slice(start, stop),)]
