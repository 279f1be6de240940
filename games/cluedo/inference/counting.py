"""Counting the deals that fit what is known, exactly.

The unknown cards go to holders (seats, and the envelope) with so many places each. What is known
is, per holder, which cards it may and must hold, and *clauses*: sets of cards of which it holds at
least one. A deal may also be weighted: a *showing* of one card out of a named set S by a holder
with hand H has probability 1/|S ∩ H| if refuters choose uniformly.

Method. Propagate units; group the cards that no constraint tells apart into classes; then count
the partitions of the unknown cards U into hands by inclusion and exclusion (Björklund, Husfeldt
and Koivisto, "Set partitioning via inclusion-exclusion", SIAM J. Comput. 39, 2009). With f_h(T)
the weight of hand T for holder h (0 where T has the wrong size or breaks a clause) and its zeta
transform P_h(S) = sum of f_h(T) over T within S,

    total = sum over S within U of (-1)^|U - S| * product over h of P_h(S),

because sets whose sizes add up to |U| cover U only if they do not overlap. The weight of all deals
in which h holds exactly T is f_h(T) times the sum of (-1)^|U - S| * product over g != h of P_g(S)
over S that include T. Both sums run over all S at once, one card at a time: the time depends on
the number of unknown cards (18 at most), not on how many deals fit. A class of n alike cards is one
axis of length n + 1 with binomial coefficients in place of ones.

Weights are scaled to integers and added modulo 2**64, so that the differences are exact: certainty
is a zero that is a zero. Should a total ever not fit, Python's integers take over, slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import comb, factorial, lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from games.cluedo.inference.constraints import Contradiction, Holder, Problem, members, propagate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Array = NDArray[Any]
"""Of int64, or of Python's integers."""


class Count:
    """A solved problem: `total`, the marginals, the distribution of the envelope.

    `total` is the weighted number of deals, exactly, and 0 if none fits.
    """

    def __init__(self, problem: Problem) -> None:
        """Solve `problem`, which is left alone."""
        self.problem = problem = problem.copy()
        self.total = Fraction(0)
        self._settled = Fraction(1)
        """The weight of showings that no unknown card can change any more."""
        try:
            propagate(problem)
        except Contradiction:
            return
        self._classify()
        self._hands = [self._seat_hands(holder) for holder in problem.holders[:-1]]
        self._hands.append(self._envelope_hands())
        if all(len(hands.weights) for hands in self._hands):
            self._solve()

    def _classify(self) -> None:
        """Group the unknown cards by everything that any constraint says of them."""
        problem = self.problem
        placed = 0
        for holder in problem.holders:
            placed |= holder.must
        unknown = problem.cards & ~placed
        sets = list(problem.categories)
        for holder in problem.holders:
            sets += (holder.may, *holder.clauses)
            for shown in holder.showings:
                if not shown & holder.may & unknown:
                    self._settled /= (shown & holder.must).bit_count()
            holder.showings = tuple(s for s in holder.showings if s & holder.may & unknown)
            sets += holder.showings
        for triple in problem.excluded:
            sets += (1 << card for card in members(triple))
        groups: dict[tuple[int, ...], int] = {}
        for card in members(unknown):
            bit = 1 << card
            signature = tuple([place for place, cards in enumerate(sets) if cards & bit])
            groups[signature] = groups.get(signature, 0) | bit
        # Large classes first: their axes are then the outer ones, which are fast to combine.
        self.classes = sorted(groups.values(), key=lambda cards: (-cards.bit_count(), cards))
        self.sizes = tuple(cards.bit_count() for cards in self.classes)
        lengths = [size + 1 for size in self.sizes]
        self._num_multisets = prod(lengths)
        self._strides = [prod(lengths[place + 1 :]) for place in range(len(lengths))]

    def _columns(self, cards: int) -> list[int]:
        return [place for place, members in enumerate(self.classes) if members & cards]

    def _seat_hands(self, holder: Holder) -> _Hands:
        places = self._columns(holder.may)
        sizes = tuple(self.sizes[place] for place in places)
        counts = all_hands(sizes, holder.size - holder.must.bit_count())
        column = {place: number for number, place in enumerate(places)}

        def held(cards: int) -> Ints:
            columns = [column[place] for place in self._columns(cards & holder.may)]
            total: Ints = counts[:, columns].sum(axis=1)
            return total

        scales = [scale_of(holder, shown) for shown in holder.showings]
        weights = np.ones(len(counts), dtype=_integers(prod(scales)))
        for clause in holder.clauses:
            weights *= held(clause) > 0
        for shown, scale in zip(holder.showings, scales, strict=True):
            could_show = held(shown) + (shown & holder.must).bit_count()
            weights *= scale // np.maximum(could_show, 1)
        return self._hands_of(places, counts, weights)

    def _envelope_hands(self) -> _Hands:
        """What the envelope may hold: one card of each category that is still open."""
        envelope = self.problem.holders[-1]
        certain, open_places = envelope.must, []
        for category in self.problem.categories:
            if not certain & category:
                open_places.append(self._columns(envelope.may & category))
        rows = [
            chosen
            for chosen in product(*open_places)
            if sum(self.classes[place] for place in chosen) | certain not in self.problem.excluded
        ]
        places = list(range(len(self.classes)))
        counts = np.zeros((len(rows), len(places)), dtype=np.int64)
        for number, chosen in enumerate(rows):
            counts[number, list(chosen)] = 1
        return self._hands_of(places, counts, np.ones(len(rows), dtype=np.int64))

    def _hands_of(self, places: list[int], counts: Ints, weights: Ints) -> _Hands:
        possible = weights > 0
        if not possible.all():
            counts, weights = counts[possible], weights[possible]
        codes = counts @ np.array([self._strides[place] for place in places], dtype=np.int64)
        return _Hands(places, counts, weights, codes)

    def _solve(self) -> None:
        shape = (self._num_multisets, len(self._hands))
        weights = np.zeros(shape, dtype=_integers(self._bound()))
        for number, hands in enumerate(self._hands):
            weights[hands.codes, number] = hands.weights
        self.covers = self._transform(weights, zeta=True)
        seats = self.covers[:, :-1]
        self._onward = self._others_of(seats.prod(axis=1, keepdims=True), self._hands[-1:])
        self.scaled_total = int((self._onward[-1] * self._alike(self._hands[-1])).sum())
        self.total = Fraction(self.scaled_total, self._scale()) * self._settled

    def _others_of(self, products: Array, hands: list[_Hands]) -> list[Array]:
        """Per holder and hand, the weight of everybody else's hands."""
        others = self._transform(products, zeta=False)
        return [others[each.codes, column] for column, each in enumerate(hands)]

    def _bound(self) -> int:
        """No total is greater than this."""
        free = sum(self.sizes)
        bound = factorial(free)
        for holder in self.problem.holders:
            bound //= factorial(holder.size - holder.must.bit_count())
        return bound * self._scale() * 6

    def _scale(self) -> int:
        """What all weights together are multiplied by to be integers."""
        holders = self.problem.holders
        return prod(scale_of(holder, shown) for holder in holders for shown in holder.showings)

    def _transform(self, values: Array, zeta: bool) -> Array:
        """Sums over what is within (`zeta`), or signed sums over what includes; axis by axis.

        Shape (multisets, holders) in and out.
        """
        columns = values.shape[1]
        for size, stride in zip(self.sizes, self._strides, strict=True):
            view = values.reshape(-1, size + 1, stride * columns)
            if size > 1:
                values = np.matmul(binomials(size, zeta).astype(values.dtype), view)
            elif zeta:
                view[:, 1] += view[:, 0]
            else:
                np.subtract(view[:, 1], view[:, 0], out=view[:, 0])
        return values.reshape(-1, columns)

    def _alike(self, hands: _Hands) -> Ints:
        """How many hands of single cards each row of counts stands for."""
        ways = np.ones(len(hands.counts), dtype=np.int64)
        for column, place in enumerate(hands.places):
            if self.sizes[place] > 1:
                ways *= _WAYS[self.sizes[place], hands.counts[:, column]]
        return ways

    def _probabilities(self, number: int) -> Floats:
        """Of each row of hands of one holder; -1 is the envelope."""
        hands = self._hands[number]
        deals = hands.weights * self._onward[number] * self._alike(hands)
        shares: Floats = (deals / self.scaled_total).astype(np.float64)
        return shares

    def envelopes(self) -> Iterator[Envelopes]:
        """The possible contents of the envelope, alike ones together."""
        certain = [1 << card for card in members(self.problem.holders[-1].must)]
        for row, probability in zip(self._hands[-1].counts, self._probabilities(-1), strict=True):
            if probability:
                chosen = [self.classes[place] for place in np.flatnonzero(row)]
                yield Envelopes(tuple(sorted(chosen + certain)), float(probability))

    def entropy(self) -> float:
        """Of the envelope, in bits."""
        probability = self._probabilities(-1)
        possible = probability > 0
        alike = self._alike(self._hands[-1])[possible]
        probability = probability[possible]
        return float(np.sum(probability * np.log2(alike / probability))) + 0.0

    def marginals(self) -> Floats:
        """Shape (cards of the deck, holders): the probability that each holder has each card."""
        problem = self.problem
        if len(self._onward) == 1:
            products = _products_of_the_others(self.covers)[:, :-1]
            self._onward = self._others_of(products.copy(), self._hands[:-1]) + self._onward
        table = np.zeros((problem.deck_size, len(problem.holders)))
        for number, holder in enumerate(problem.holders):
            table[list(members(holder.must)), number] = 1.0
            hands = self._hands[number]
            expected = self._probabilities(number) @ hands.counts
            for column, place in enumerate(hands.places):
                cards = list(members(self.classes[place]))
                table[cards, number] = expected[column] / len(cards)
        return table


@dataclass(frozen=True, slots=True)
class _Hands:
    """The possible hands of one holder, as counts per class of unknown cards."""

    places: list[int]
    """The classes that the columns of `counts` stand for."""
    counts: Ints
    weights: Ints
    codes: Ints
    """Where each hand stands in the array over all multisets."""


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Contents of the envelope that are equally likely: any one card from each set."""

    classes: tuple[int, ...]
    """One set of cards per category."""
    probability: float
    """Of all of them together."""


def _products_of_the_others(values: Array) -> Array:
    """Column h: the product of all columns but h."""
    result = np.ones_like(values)
    np.cumprod(values[:, :-1], axis=1, out=result[:, 1:])
    running = values[:, -1].copy()
    for column in reversed(range(values.shape[1] - 1)):
        result[:, column] *= running
        running *= values[:, column]
    return result


@lru_cache(maxsize=1 << 12)
def all_hands(sizes: tuple[int, ...], total: int) -> Ints:
    """All ways to take `total` cards from classes of these sizes; shape (hands, classes)."""
    rows = np.zeros((1, len(sizes)), dtype=np.int64)
    sums = np.zeros(1, dtype=np.int64)
    capacity = sum(sizes)
    for place, size in enumerate(sizes):
        capacity -= size
        taken = np.arange(size + 1)
        rows = np.repeat(rows, size + 1, axis=0)
        sums = (sums[:, None] + taken[None, :]).ravel()
        rows[:, place] = np.tile(taken, len(rows) // (size + 1))
        keep = (sums <= total) & (sums + capacity >= total)
        rows, sums = rows[keep], sums[keep]
    found: Ints = rows[sums == total]
    found.setflags(write=False)
    return found


def scale_of(holder: Holder, shown: int) -> int:
    """The least number that every possible count of matching cards divides."""
    return lcm(*range(1, (shown & holder.may).bit_count() + 1))


def _integers(greatest: int) -> Any:
    """The dtype that holds integers up to `greatest`: 64 bits, or Python's own."""
    return np.int64 if greatest < 2**62 else object


_WAYS = np.array([[comb(n, k) for k in range(22)] for n in range(22)], dtype=np.int64)


@lru_cache(maxsize=64)
def binomials(size: int, zeta: bool) -> Ints:
    """The transform along the axis of a class of `size` alike cards.

    Zeta: [s, t] is the number of ways to choose t cards of s. Else: [t, s] is the number of sets
    of s cards, of all `size`, that include t given ones, with the sign of inclusion-exclusion.
    """
    numbers = range(size + 1)
    if zeta:
        return np.array([[comb(s, t) for t in numbers] for s in numbers], dtype=np.int64)
    return np.array(
        [
            [(-1) ** (size - s) * comb(size - t, s - t) if s >= t else 0 for s in numbers]
            for t in numbers
        ],
        dtype=np.int64,
    )
