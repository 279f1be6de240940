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
cards (18 at most in printed decks) and not on the number of deals. With the largest generated deck,
of 36 cards, arrays have up to 800,000 elements among 4 players (2 s) and 25 million among 6 (20 s
and 1.2 GB), measured in games with random questions. A class of n alike cards is one axis of length
n + 1 with binomial coefficients in place of ones. P_h(S) depends only on the cards of S that h may
hold, so its array has only their axes; and the second formula sums the axes of the cards that h
cannot hold to one number each, which makes the array small (see `superset_sums`).

Weights are scaled to integers and added modulo 2**64, so that the differences are exact: an
impossible case has weight exactly 0. If a total might not fit into 64 bits, Python's integers are
used instead, which is slower. A probability is the quotient of two integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import accumulate, product
from math import comb, factorial, lcm, prod
from typing import Any

import numpy as np

from games.cluedo.inference.constraints import (
    Array,
    CardClasses,
    Constraints,
    Contradiction,
    Floats,
    Holder,
    Ints,
    card_numbers,
    choice_signs,
    propagate,
    subset_sums,
    sum_over_envelopes,
    superset_sums,
)


class DealCount:
    """Count of the deals that satisfy `constraints`, with marginals and envelope distribution.

    Attributes:
        constraints: A propagated copy of the constraints.
        total: The weighted number of deals, exact; 0 if no deal is possible.
        classes: The classes of unknown cards, as sets of cards, by category.
        sizes: The number of cards in each class.
        axes: Per category, the numbers of its classes.
        scaled_total: `total` as an integer, before division by the scale.

    Example:
        >>> from games.cluedo.inference.constraints import Constraints, Holder
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
        try:
            propagate(constraints)
        except Contradiction:
            return
        self._classes = classes = CardClasses(constraints)
        self.classes, self.sizes, self.axes = classes.classes, classes.sizes, classes.axes
        holders = constraints.holders
        self._scale = prod(showing_scale(h, shown) for h in holders for shown in h.showings)
        self._hands = HandCovers(classes, integer_dtype(self._bound()))
        self._solve()

    def _solve(self) -> None:
        """Compute the weight of each possible content of the envelope, and the total."""
        weights = reduce(np.multiply, self._hands.covers().values(), self._ones())
        envelope, groups, choices = self.constraints.holders[-1], list[list[int]](), list[Array]()
        for category, axes in zip(self.constraints.categories, self.axes, strict=True):
            possible = [bool(self.classes[number] & envelope.may) for number in axes]
            sizes = [self.sizes[number] for number in axes]
            signs = choice_signs(tuple(zip(sizes, possible, strict=True)), weights.dtype.char)
            # Choice 0 is no unknown card, the others are a card of each possible class.
            if certain := envelope.must & category:
                groups.append([certain])
                choices.append(signs[:1])
            else:
                groups.append(
                    [self.classes[n] for n, may in zip(axes, possible, strict=True) if may]
                )
                choices.append(signs[1:])
        self._groups = groups
        self._cells = sum_over_envelopes(weights.reshape(1, -1), choices)[0]
        for triple in self.constraints.excluded:
            if not triple & ~envelope.may:
                # Its cards are groups of their own.
                cell = [[c & triple > 0 for c in group].index(True) for group in self._groups]
                self._cells[tuple(cell)] = 0
        numbers = [[cards.bit_count() for cards in group] for group in self._groups]
        self._alike: Ints = reduce(np.multiply.outer, [np.array(group) for group in numbers])
        # total = sum over the envelope's contents T of (weight of all deals with T).
        self.scaled_total = int((self._cells * self._alike).sum())
        self.total = Fraction(self.scaled_total, self._scale) * self._classes.constant_weight

    def _ones(self) -> Array:
        """Return P_h(S) of a seat without unknown cards, which has one hand."""
        return self._classes.expand(np.ones((), dtype=self._hands.dtype))

    def cover(self, seat: int) -> Array:
        """Return P_h(S) of a seat, shape (size + 1 of each class)."""
        cover = self._hands.covers().get(seat)
        return (self._ones() if cover is None else cover).reshape(self._classes.shape())

    def _bound(self) -> int:
        """Return an upper bound of every total, scaled."""
        # The multinomial number of deals of the unknown cards, without any other constraint.
        free = sum(self.sizes)
        bound = factorial(free)
        for holder in self.constraints.holders:
            bound //= factorial(holder.size - holder.must.bit_count())
        # A factor of 6 is left for `AnswerDistribution`, which counts in sixths.
        return bound * self._scale * 6

    def envelopes(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield the possible contents of the envelope in groups, with their probabilities.

        A group is a set of cards per category: its contents, any one card from each set, are
        equally likely, and the probability is that of the whole group.
        """
        deals = (self._cells * self._alike).ravel().tolist()
        groups = zip(product(*self._groups), deals, strict=True)
        # Large classes first, then in deck order.
        for classes, weight in sorted(groups, key=lambda g: [(-c.bit_count(), c) for c in g[0]]):
            if weight:
                yield classes, weight / self.scaled_total

    def entropy(self) -> float:
        """Return the entropy of the envelope in bits."""
        # A group of n equally likely contents with total probability p adds p * log2(n / p).
        alike, cells = self._alike.ravel(), self._cells.ravel()
        possible = cells > 0
        alike = alike[possible]
        probability = (cells[possible] * alike / self.scaled_total).astype(np.float64)
        return float(np.sum(probability * np.log2(alike / probability))) + 0.0  # Not -0.0.

    def marginals(self) -> Floats:
        """Return P(holder has card), shape (cards of the deck, holders)."""
        holders = self.constraints.holders
        table = [[0.0] * len(holders) for _ in range(self.constraints.deck_size)]
        for number, holder in enumerate(holders):
            for card in card_numbers(holder.must):
                table[card][number] = 1.0
        for number, cards, deals in (*self._seat_deals(), *self._envelope_deals()):
            # `deals` is summed over the cards of the class; alike cards share it evenly.
            probability = deals / (self.scaled_total * cards.bit_count())
            for card in card_numbers(cards):
                table[card][number] = probability
        self._hands.release()
        return np.array(table)

    def _envelope_deals(self) -> Iterator[tuple[int, int, int]]:
        """Yield the envelope, a class and the weight of the deals that put a card of it there."""
        deals = self._cells * self._alike
        for axis, group in enumerate(self._groups):
            sums = deals.sum(axis=tuple({0, 1, 2} - {axis})).tolist()
            for cards, weight in zip(group, sums, strict=True):
                yield len(self.constraints.holders) - 1, cards, weight

    def _seat_deals(self) -> Iterator[tuple[int, int, int]]:
        """Yield seat, class and the weight of the deals, times the cards of the class it has."""
        covers = self._hands.covers()
        factors = [*covers.values(), self._hands.envelope()]
        # Products of the factors before and after each seat. No division: a factor may be 0.
        after = list(accumulate(reversed(factors[1:]), np.multiply))
        before = self._ones()
        for seat, cover in covers.items():
            others = after.pop()
            # The last product is the envelope's factor itself, which is not needed again.
            others *= before
            before *= cover
            table = self._hands.table(seat)
            sums = superset_sums(others, self.sizes, table.places)
            # P(T) = f_h(T) * others(T) * (hands of single cards) / total; the scale cancels.
            deals = table.weights * sums[table.codes] * table.ways
            weights = (deals @ table.counts).tolist()
            for number, weight in zip(table.places, weights, strict=True):
                yield seat, self.classes[number], weight


def entropy_terms(joint: Floats, group_sizes: Floats) -> Floats:
    """Return P(answer) * H(envelope | answer) in bits, shape (answers,)."""
    # With p_e = P(answer, envelope e) and P = sum of p_e:
    #   P * H = -sum of p_e log2(p_e / P) = P log2 P - sum of p_e log2 p_e.
    p = joint.reshape(len(joint), -1)
    number = group_sizes.ravel()
    terms: Floats = _p_log_p(p @ number) - _p_log_p(p) @ number
    return terms


def _p_log_p(p: Floats) -> Floats:
    """Return p * log2(p) element by element, 0 for p = 0."""
    terms: Floats = p * np.log2(np.where(p > 0, p, 1.0))
    return terms


# Weights of hands


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


KEPT_BYTES = 1 << 15
"""Greatest size of the arrays of one position that are kept; larger ones are computed again."""


class HandCovers:
    """Weights of hands: the functions f_h(T) and P_h(S) of all holders, computed on demand.

    Args:
        classes: The classes of unknown cards, with the propagated constraints.
        dtype: The dtype of P_h(S), wide enough for every total.
    """

    def __init__(self, classes: CardClasses, dtype: Any) -> None:
        self.classes = classes
        self.holders = classes.constraints.holders
        self.dtype = dtype
        self._covers: dict[int, Array] | None = None
        self._tables = dict[int, HandTable]()

    def covers(self) -> dict[int, Array]:
        """Return P_h(S) of the seats with unknown cards, each flat over all classes."""
        if self._covers is None:
            self._covers = {
                seat: self.classes.expand(self._cover(seat))
                for seat, holder in enumerate(self.holders[:-1])
                if holder.must.bit_count() < holder.size
            }
        return self._covers

    def release(self) -> None:
        """Forget large arrays; they are computed again if needed."""
        self._tables.clear()
        if self._covers and sum(cover.nbytes for cover in self._covers.values()) > KEPT_BYTES:
            self._covers = None

    def table(self, seat: int) -> HandTable:
        """Return the unknown parts of the hands that a seat may have, with their weights."""
        if seat in self._tables:
            return self._tables[seat]
        holder = self.holders[seat]
        strides, stride = dict[int, int](), 1
        for place in reversed(self.classes.numbers(holder.may & ~holder.must)):
            strides[place] = stride
            stride *= self.classes.sizes[place] + 1
        # Large classes first, so that few different tables are enumerated.
        places = sorted(strides, key=lambda place: -self.classes.sizes[place])
        # (hands, places): only the places that certain cards leave open are counted.
        sizes = tuple([self.classes.sizes[place] for place in places])
        counts, ways = all_hands(sizes, holder.size - holder.must.bit_count())
        # Row-major index of a multiset: sum over classes of count * stride.
        codes = counts @ np.array([strides[place] for place in places], dtype=np.int64)
        weights = self._weights(holder, counts, [self.classes.classes[place] for place in places])
        self._tables[seat] = table = HandTable(tuple(places), counts, ways, weights, codes)
        return table

    def _weights(self, holder: Holder, counts: Ints, members: Sequence[int]) -> Ints:
        """Return the scaled weight of each hand; `members` are the classes of the columns."""
        # f(T) = product of [clause is satisfied] * product of scale / |S ∩ H|.
        scales = [showing_scale(holder, shown) for shown in holder.showings]
        wide = integer_dtype(prod(scales)) is object
        weights = np.ones(len(counts), dtype=object if wide else np.int64)
        for clause in holder.clauses:
            weights *= _held(counts, members, clause) > 0
        for shown, scale in zip(holder.showings, scales, strict=True):
            could_show = _held(counts, members, shown) + (shown & holder.must).bit_count()
            # A hand without any of the cards breaks the clause of the showing: weight 0 already.
            weights *= scale // np.maximum(could_show, 1)
        return weights

    def _cover(self, seat: int) -> Array:
        """Return P_h(S) of a seat, with an axis of length 1 for a class it cannot hold."""
        holder = self.holders[seat]
        places = self.classes.numbers(holder.may & ~holder.must)
        sizes, shape = [self.classes.sizes[place] for place in places], self.classes.shape(places)
        if not holder.clauses and not holder.showings:
            # All hands have weight 1: P_h(S) = C(cards of S that h may have, open places of h).
            totals = card_totals(tuple(sizes))
            values = WAYS[totals, holder.size - holder.must.bit_count()].astype(self.dtype)
        else:
            table = self.table(seat)
            values = np.zeros(prod(shape), dtype=self.dtype)
            values[table.codes] = table.weights
            values = subset_sums(values, sizes)
        cover: Array = values.reshape(shape)
        return cover

    def envelope(self) -> Array:
        """Return P(S) of the envelope, flat: the number of its possible contents within S."""
        classes, envelope = self.classes, self.holders[-1]
        result = np.ones(classes.shape([]), dtype=self.dtype)
        for category, axes in zip(classes.constraints.categories, classes.axes, strict=True):
            if not envelope.must & category:
                # One card of the category: the number of its possible cards in S.
                possible = [n for n in axes if classes.classes[n] & envelope.may]
                totals = card_totals(tuple([classes.sizes[n] for n in possible]))
                result = result * totals.reshape(classes.shape(possible)).astype(self.dtype)
        flat = classes.expand(result)
        for triple in classes.constraints.excluded:
            # In a category with a certain card, no other card is possible.
            if not triple & ~envelope.may:
                # The sets S that have all of its unknown cards; each is a class of its own.
                within = [slice(int(bool(cards & triple)), None) for cards in classes.classes]
                flat.reshape(classes.shape())[tuple(within)] -= 1
        return flat


def _held(counts: Ints, members: Sequence[int], cards: int) -> Ints:
    """Count the unknown cards of the set in each hand, shape (hands,)."""
    # A class lies inside or outside every set of a constraint, never partly inside.
    inside = np.array([bool(group & cards) for group in members], dtype=np.int64)
    held: Ints = counts @ inside
    return held
