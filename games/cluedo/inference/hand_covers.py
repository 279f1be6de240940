"""Weights of hands: per holder h, the functions f_h(T) and P_h(S) of `DealCount`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from games.cluedo.inference.card_classes import CardClasses
from games.cluedo.inference.constraints import Holder
from games.cluedo.inference.hand_tables import (
    WAYS,
    Array,
    HandTable,
    Ints,
    all_hands,
    card_totals,
    integer_dtype,
    showing_scale,
)
from games.cluedo.inference.subset_sums import subset_sums

KEPT_BYTES = 1 << 15
"""Greatest size of the arrays of one position that are kept; larger ones are computed again."""


class HandCovers:
    """Functions f_h(T) and P_h(S) of all holders, computed on demand.

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
