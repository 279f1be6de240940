"""Exact counting of the deals that satisfy the constraints.

The unknown cards go to holders (seats and the envelope) with a given number of places each. The
constraints are, per holder, the cards it may and must hold, and *clauses*: sets of cards of which
it holds at least one. A deal may also be weighted: a *showing* of one card out of a named set S by
a holder with hand H has probability 1/|S ∩ H| if refuters choose uniformly.

Method. Propagate unit conclusions; group the cards that no constraint tells apart into classes;
then count the partitions of the unknown cards U into hands by inclusion and exclusion (Björklund,
Husfeldt and Koivisto, "Set partitioning via inclusion-exclusion", SIAM J. Comput. 39, 2009). Let
f_h(T) be the weight of hand T for holder h (0 if T has the wrong size or breaks a clause), and
P_h(S) = sum of f_h(T) over T ⊆ S its zeta transform. Then

    total = sum over S ⊆ U of (-1)^|U - S| * product over h of P_h(S),

because sets whose sizes add up to |U| cover U only if they do not overlap. The weight of all deals
in which h holds exactly T is

    f_h(T) * sum over S with T ⊆ S ⊆ U of (-1)^|U - S| * product over g != h of P_g(S).

Both sums run over all S at once, one card at a time: the time depends on the number of unknown
cards (18 at most) and not on the number of deals. A class of n alike cards is one axis of length
n + 1 with binomial coefficients in place of ones.

Weights are scaled to integers and added modulo 2**64, so that the differences are exact: an
impossible case has weight exactly 0. If a total might not fit into 64 bits, Python's integers are
used instead, which is slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import factorial, prod

import numpy as np

from games.cluedo.inference.constraints import (
    Constraints,
    Contradiction,
    Holder,
    card_numbers,
    propagate,
)
from games.cluedo.inference.hand_tables import (
    WAYS,
    Array,
    Floats,
    HandTable,
    Ints,
    all_hands,
    binomials,
    integer_dtype,
    showing_scale,
)


class DealCount:
    """Count of the deals that satisfy `constraints`, with marginals and envelope distribution.

    Attributes:
        constraints: A propagated copy of the constraints.
        total: The weighted number of deals, exact; 0 if no deal is possible.
        classes: The classes of unknown cards, as sets of cards, the largest first.
        sizes: The number of cards in each class.
        covers: Shape (multisets, holders), P_h(S); multisets of the classes in row-major order.
        scaled_total: `total` as an integer, before division by the scale.

    Example:
        >>> seats = [Holder(size=2, may=0b11111), Holder(size=0, may=0)]
        >>> envelope = Holder(size=3, may=0b11111)
        >>> deck = Constraints(5, (0b00011, 0b01100, 0b10000), [*seats, envelope])
        >>> int(DealCount(deck).total)  # 2 suspects times 2 weapons times 1 room
        4
    """

    def __init__(self, constraints: Constraints) -> None:
        """Count the deals; `constraints` are not changed."""
        self.constraints = constraints = constraints.copy()
        self.total = Fraction(0)
        # Weight of the showings that do not depend on any unknown card.
        self._constant_weight = Fraction(1)
        try:
            propagate(constraints)
        except Contradiction:
            return
        self._classify()
        self._hands = [self._seat_hands(holder) for holder in constraints.holders[:-1]]
        self._hands.append(self._envelope_hands())
        # A holder without any possible hand means that no deal is possible: total stays 0.
        if all(len(hands.weights) for hands in self._hands):
            self._solve()

    def _classify(self) -> None:
        """Group the unknown cards by the constraints that mention them."""
        constraints = self.constraints
        placed = 0
        for holder in constraints.holders:
            placed |= holder.must
        unknown = constraints.cards & ~placed
        sets = list(constraints.categories)
        for holder in constraints.holders:
            sets += (holder.may, *holder.clauses)
            for shown in holder.showings:
                # No unknown card matters: the factor 1/k is the same for all deals.
                if not shown & holder.may & unknown:
                    self._constant_weight /= (shown & holder.must).bit_count()
            holder.showings = tuple(s for s in holder.showings if s & holder.may & unknown)
            sets += holder.showings
        # Each card of an excluded triple gets a class of its own.
        for triple in constraints.excluded:
            sets += (1 << card for card in card_numbers(triple))
        # Two cards are alike if exactly the same sets contain them.
        groups: dict[tuple[int, ...], int] = {}
        for card in card_numbers(unknown):
            bit = 1 << card
            signature = tuple([place for place, cards in enumerate(sets) if cards & bit])
            groups[signature] = groups.get(signature, 0) | bit
        # Large classes first: their axes are then the outer ones, which are fast to combine.
        self.classes = sorted(groups.values(), key=lambda cards: (-cards.bit_count(), cards))
        self.sizes = tuple(cards.bit_count() for cards in self.classes)
        # A multiset has 0 … size cards of each class; it is one index in a row-major array.
        lengths = [size + 1 for size in self.sizes]
        self._num_multisets = prod(lengths)
        self._strides = [prod(lengths[place + 1 :]) for place in range(len(lengths))]

    def _class_numbers(self, cards: int) -> list[int]:
        """Return the numbers of the classes that have a card in the set."""
        return [place for place, members in enumerate(self.classes) if members & cards]

    def _seat_hands(self, holder: Holder) -> HandTable:
        """Return the unknown parts of the hands that a seat may have, with their weights."""
        places = self._class_numbers(holder.may)
        sizes = tuple(self.sizes[place] for place in places)
        # (hands, places): only the places that certain cards leave open are counted.
        counts = all_hands(sizes, holder.size - holder.must.bit_count())
        column = {place: number for number, place in enumerate(places)}

        def held(cards: int) -> Ints:
            """Count the unknown cards of the set in each hand, shape (hands,)."""
            # A class lies inside or outside every set of a constraint, never partly inside.
            columns = [column[place] for place in self._class_numbers(cards & holder.may)]
            total: Ints = counts[:, columns].sum(axis=1)
            return total

        # f(T) = product of [clause is satisfied] * product of scale / |S ∩ H|.
        scales = [showing_scale(holder, shown) for shown in holder.showings]
        weights = np.ones(len(counts), dtype=integer_dtype(prod(scales)))
        for clause in holder.clauses:
            weights *= held(clause) > 0
        for shown, scale in zip(holder.showings, scales, strict=True):
            could_show = held(shown) + (shown & holder.must).bit_count()
            # A hand without any of the cards breaks the clause of the showing: weight 0 already.
            weights *= scale // np.maximum(could_show, 1)
        return self._hand_table(places, counts, weights)

    def _envelope_hands(self) -> HandTable:
        """Return the possible contents of the envelope: one card per category that is open."""
        envelope = self.constraints.holders[-1]
        certain, open_places = envelope.must, []
        for category in self.constraints.categories:
            if not certain & category:
                open_places.append(self._class_numbers(envelope.may & category))
        excluded = self.constraints.excluded
        # Cards of excluded triples are classes of their own, so the comparison of sets is exact.
        rows = [
            chosen
            for chosen in product(*open_places)
            if sum(self.classes[place] for place in chosen) | certain not in excluded
        ]
        places = list(range(len(self.classes)))
        counts = np.zeros((len(rows), len(places)), dtype=np.int64)
        for number, chosen in enumerate(rows):
            counts[number, list(chosen)] = 1
        return self._hand_table(places, counts, np.ones(len(rows), dtype=np.int64))

    def _hand_table(self, places: list[int], counts: Ints, weights: Ints) -> HandTable:
        """Drop the hands of weight 0 and compute the index of each of the others."""
        possible = weights > 0
        if not possible.all():
            counts, weights = counts[possible], weights[possible]
        # Row-major index of a multiset: sum over classes of count * stride.
        codes = counts @ np.array([self._strides[place] for place in places], dtype=np.int64)
        return HandTable(places, counts, weights, codes)

    def _solve(self) -> None:
        """Compute P_h(S) of all holders, and the total from the envelope's point of view."""
        # Shape (multisets, holders): f_h at the multiset of each hand, else 0.
        shape = (self._num_multisets, len(self._hands))
        weights = np.zeros(shape, dtype=integer_dtype(self._bound()))
        for number, hands in enumerate(self._hands):
            weights[hands.codes, number] = hands.weights
        self.covers = self._transform(weights, zeta=True)
        # Only the envelope's column is computed here; `marginals` adds the seats when needed.
        seats = self.covers[:, :-1]
        self._others = self._others_of(seats.prod(axis=1, keepdims=True), self._hands[-1:])
        # total = sum over the envelope's contents T of (weight of all deals with T).
        self.scaled_total = int((self._others[-1] * self._multiplicity(self._hands[-1])).sum())
        self.total = Fraction(self.scaled_total, self._scale()) * self._constant_weight

    def _others_of(self, products: Array, tables: list[HandTable]) -> list[Array]:
        """Return, per holder and hand T, the weight of all hands of the other holders given T.

        `products` has shape (multisets, holders): the product over g != h of P_g(S).
        """
        # Signed sum over S ⊇ T, read at the code of each hand.
        others = self._transform(products, zeta=False)
        return [others[hands.codes, column] for column, hands in enumerate(tables)]

    def _bound(self) -> int:
        """Return an upper bound of every total, scaled."""
        # The multinomial number of deals of the unknown cards, without any other constraint.
        free = sum(self.sizes)
        bound = factorial(free)
        for holder in self.constraints.holders:
            bound //= factorial(holder.size - holder.must.bit_count())
        # A factor of 6 is left for `AnswerDistribution`, which counts in sixths.
        return bound * self._scale() * 6

    def _scale(self) -> int:
        """Return the factor that makes all weights together integers."""
        holders = self.constraints.holders
        return prod(showing_scale(holder, shown) for holder in holders for shown in holder.showings)

    def _transform(self, values: Array, zeta: bool) -> Array:
        """Sum over subsets (`zeta`), or over supersets with signs; may change `values`.

        Shape (multisets, holders) in and out. One class, and so one axis, at a time.
        """
        columns = values.shape[1]
        for size, stride in zip(self.sizes, self._strides, strict=True):
            # (outer classes, this class, inner classes and holders).
            view = values.reshape(-1, size + 1, stride * columns)
            if size > 1:
                values = np.matmul(binomials(size, zeta).astype(values.dtype), view)
            # A single card has the 2 by 2 matrices [[1, 0], [1, 1]] and [[-1, 1], [0, 1]].
            elif zeta:
                view[:, 1] += view[:, 0]
            else:
                np.subtract(view[:, 1], view[:, 0], out=view[:, 0])
        return values.reshape(-1, columns)

    def _multiplicity(self, hands: HandTable) -> Ints:
        """Return the number of hands of single cards that each row of counts represents."""
        # Product over classes of C(class size, count); classes of one card contribute 1.
        ways = np.ones(len(hands.counts), dtype=np.int64)
        for column, place in enumerate(hands.places):
            if self.sizes[place] > 1:
                ways *= WAYS[self.sizes[place], hands.counts[:, column]]
        return ways

    def _probabilities(self, number: int) -> Floats:
        """Return the probability of each row of hands of one holder; -1 is the envelope."""
        hands = self._hands[number]
        # P(row) = f_h(T) * others(T) * multiplicity / total; the scale cancels.
        deals = hands.weights * self._others[number] * self._multiplicity(hands)
        probabilities: Floats = (deals / self.scaled_total).astype(np.float64)
        return probabilities

    def envelopes(self) -> Iterator[EnvelopeGroup]:
        """Yield the possible contents of the envelope, grouped by equal probability."""
        certain = [1 << card for card in card_numbers(self.constraints.holders[-1].must)]
        for row, probability in zip(self._hands[-1].counts, self._probabilities(-1), strict=True):
            if probability:
                chosen = [self.classes[place] for place in np.flatnonzero(row)]
                # Sorting by bits puts suspects before weapons before rooms, as in the deck.
                yield EnvelopeGroup(tuple(sorted(chosen + certain)), float(probability))

    def entropy(self) -> float:
        """Return the entropy of the envelope in bits."""
        # A group of n equally likely contents with total probability p adds p * log2(n / p).
        probability = self._probabilities(-1)
        possible = probability > 0
        alike = self._multiplicity(self._hands[-1])[possible]
        probability = probability[possible]
        return float(np.sum(probability * np.log2(alike / probability))) + 0.0  # Not -0.0.

    def marginals(self) -> Floats:
        """Return P(holder has card), shape (cards of the deck, holders)."""
        constraints = self.constraints
        if len(self._others) == 1:  # So far only the envelope's column was needed.
            # The envelope's column was computed before.
            products = _products_of_others(self.covers)[:, :-1]
            self._others = self._others_of(products.copy(), self._hands[:-1]) + self._others
        table = np.zeros((constraints.deck_size, len(constraints.holders)))
        for number, holder in enumerate(constraints.holders):
            table[list(card_numbers(holder.must)), number] = 1.0
            hands = self._hands[number]
            # E[cards of the class in the hand]; alike cards share it evenly.
            expected = self._probabilities(number) @ hands.counts
            for column, place in enumerate(hands.places):
                cards = list(card_numbers(self.classes[place]))
                table[cards, number] = expected[column] / len(cards)
        return table


@dataclass(frozen=True, slots=True)
class EnvelopeGroup:
    """Contents of the envelope that are equally likely: any one card from each set."""

    classes: tuple[int, ...]
    """One set of cards per category."""
    probability: float
    """The probability of the whole group."""


def _products_of_others(values: Array) -> Array:
    """Return in column h the product of all columns but h; shape (multisets, holders)."""
    # Product of the columns before h, times the product of those after h. No division, because
    # a factor may be 0.
    result = np.ones_like(values)
    np.cumprod(values[:, :-1], axis=1, out=result[:, 1:])
    running = values[:, -1].copy()
    for column in reversed(range(values.shape[1] - 1)):
        # `running` is the product of the columns after this one.
        result[:, column] *= running
        running *= values[:, column]
    return result
