"""Facts about a deal, the conclusions that need no counting, and sums over sets of cards.

A set of cards is an integer with one bit per card: bit n is card n of the deck. Intersection is
`a & b`, union `a | b`, difference `a & ~b`, and size `a.bit_count()`.

A *class* is a set of unknown cards that no constraint tells apart. A hand is described by how many
cards of each class it has, so that one row of counts represents many hands of single cards. A class
of n alike cards is one axis of length n + 1: index s represents the sets that have s of its cards.
All sums are exact, in int64 modulo 2**64 or in Python's integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Array = NDArray[Any]
"""Array of int64 or, if that is too narrow, of Python's integers (dtype object)."""


def card_numbers(cards: int) -> Iterator[int]:
    """Yield the numbers of the cards in a set, in ascending order."""
    while cards:
        lowest = cards & -cards  # Two's complement: keeps the lowest bit that is set.
        yield lowest.bit_length() - 1
        cards ^= lowest


@dataclass(slots=True)
class Holder:
    """Facts about the cards of one holder: a seat or the envelope."""

    size: int
    """Number of cards held."""
    may: int
    """Set of the cards that it may hold. It includes `must`."""
    must: int = 0
    """Set of the cards that it certainly holds."""
    clauses: tuple[int, ...] = ()
    """Sets of cards; the holder has at least one card of each set."""
    showings: tuple[int, ...] = ()
    """Sets of named cards out of which it showed one card. A hand H has weight 1/|S ∩ H| for each
    such set S, because refuters are assumed to choose uniformly."""

    def copy(self) -> Holder:
        return Holder(self.size, self.may, self.must, self.clauses, self.showings)


@dataclass(slots=True)
class Constraints:
    """Everything known about a deal. The last holder is the envelope, the others are the seats."""

    deck_size: int
    """Number of cards in the deck, cards that lie open included."""
    categories: tuple[int, ...]
    """One set of cards per category; the envelope holds one card of each."""
    holders: list[Holder]
    excluded: frozenset[int] = frozenset()
    """Sets of three cards that are not the contents of the envelope: false accusations."""

    def copy(self) -> Constraints:
        holders = [holder.copy() for holder in self.holders]
        return Constraints(self.deck_size, self.categories, holders, self.excluded)

    @property
    def cards(self) -> int:
        """The set of all cards that some holder has."""
        return sum(self.categories)  # The categories are disjoint, so the sum is their union.


class Contradiction(Exception):
    """No deal satisfies the constraints."""


def propagate(constraints: Constraints) -> None:
    """Draw all unit conclusions, in place, until nothing changes.

    - A card with one possible holder belongs to it; a card with a certain holder has no other.
    - A holder whose certain cards fill its hand holds nothing more.
    - A holder with just as many possible cards as places holds them all.
    - A clause with one possible card is that card.
    - The envelope holds one card per category.

    Raises:
        Contradiction: No deal satisfies the constraints.
    """
    # Each pass only removes bits from `may` and adds bits to `must`, so the loop ends.
    changed = True
    while changed:
        before = [(h.may, h.must, h.clauses) for h in constraints.holders]
        for holder in constraints.holders:
            _propagate_hand(holder)
        _propagate_envelope(constraints)
        _propagate_places(constraints)
        changed = before != [(h.may, h.must, h.clauses) for h in constraints.holders]


def _propagate_hand(holder: Holder) -> None:
    """Apply the clauses and the hand size of one holder."""
    clauses = []
    for clause in (clause & holder.may for clause in holder.clauses):
        if clause & holder.must:
            continue  # Satisfied by a card that the holder certainly has.
        if not clause:
            raise Contradiction
        if clause & (clause - 1):  # More than one bit is set: still open.
            clauses.append(clause)
        else:
            holder.must |= clause
    holder.clauses = tuple(clauses)
    if holder.must & ~holder.may or holder.must.bit_count() > holder.size:
        raise Contradiction
    if holder.must.bit_count() == holder.size:
        holder.may = holder.must
    possible = holder.may.bit_count()
    if possible < holder.size:
        raise Contradiction
    if possible == holder.size:
        holder.must = holder.may


def _propagate_envelope(constraints: Constraints) -> None:
    """Apply the rule that the envelope holds exactly one card of each category."""
    envelope = constraints.holders[-1]
    for category in constraints.categories:
        possible = envelope.may & category
        certain = envelope.must & category
        # `certain & (certain - 1)` clears the lowest bit: not 0 if two cards are certain.
        if not possible or certain & (certain - 1):
            raise Contradiction
        if certain:
            # In this category only the certain card stays; the other categories keep all bits.
            envelope.may &= ~category | certain
        elif not possible & (possible - 1):  # Exactly one card is left.
            envelope.must |= possible


def _propagate_places(constraints: Constraints) -> None:
    """Apply the rule that each card has exactly one holder."""
    holders = constraints.holders
    once = twice = 0  # Cards with at least one, and at least two, possible holders.
    placed = 0
    for holder in holders:
        if placed & holder.must:
            raise Contradiction
        placed |= holder.must
        # Before `once` gets this holder's cards: those that an earlier holder may have too.
        twice |= once & holder.may
        once |= holder.may
    # Each card needs a possible holder.
    if once != constraints.cards:
        raise Contradiction
    for holder in holders:
        # A placed card stays with its holder only; a card with one possible holder is certain.
        holder.may &= ~placed | holder.must
        holder.must |= holder.may & ~twice


# Classes of cards


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


SIXTHS = 6
"""Unit of the probability to show a card: one of k <= 3 cards is shown in 6/k of 6 cases."""


@lru_cache(maxsize=1 << 9)
def show_factors(
    lengths: tuple[int, ...], category: int | None, asked: int, held: int, dtype: str
) -> Array:
    """Return the matrices from P(S) to the weights of hands whose seat shows a given card.

    Shape (asked, patterns of n that have the card, patterns of n); a pattern says for each category
    whether the set S has the named card. The card is that of a category, or for None one of those
    that the last seat certainly holds, `held` of the named cards.
    """
    patterns = list(np.ndindex(*lengths))
    within = [each for each in patterns if category is None or each[category]]
    factors = np.zeros((asked, len(within), len(patterns)), dtype=np.int64)
    for row, sets in enumerate(within):
        # The hands within S by the named cards x that they have: one of k cards is shown.
        for hand in patterns:
            if any(x > n for x, n in zip(hand, sets, strict=True)) or hand not in within:
                continue
            for seat in range(asked):
                k = max(1, sum(hand) + (held if seat == asked - 1 else 0))
                # Inclusion and exclusion over the sets between: exactly the cards x.
                for column, subset in enumerate(patterns):
                    if all(y <= x for x, y in zip(hand, subset, strict=True)):
                        sign = (-1) ** (sum(hand) - sum(subset))
                        factors[seat, row, column] += sign * (SIXTHS // k)
    factors = factors.astype(dtype)
    factors.setflags(write=False)
    return factors
