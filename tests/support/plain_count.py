"""Marginals by plain inclusion and exclusion, from scratch: every sum runs over every class."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import comb

import numpy as np

from games.cluedo.inference.constraints import (
    Array,
    CardClasses,
    Constraints,
    Floats,
    Ints,
    card_numbers,
    propagate,
)
from games.cluedo.inference.counting import WAYS, DealCount, HandCovers, integer_dtype


def plain_marginals(constraints: Constraints) -> Floats:
    """Return P(holder has card), shape (cards, holders), as `DealCount.marginals`."""
    constraints = constraints.copy()
    propagate(constraints)
    classes = CardClasses(constraints)
    weights = _weights(classes, DealCount(constraints)._bound())
    covers = _transform(weights.copy(), classes.sizes, zeta=True)
    others = np.ones_like(covers)
    for column in range(covers.shape[1]):
        others[:, column] = np.delete(covers, column, axis=1).prod(axis=1)
    # The weight of all deals in which a holder has exactly this multiset.
    deals = weights * _transform(others, classes.sizes, zeta=False)
    numbers = np.indices(classes.shape()).reshape(len(classes.sizes), len(deals))
    for size, held in zip(classes.sizes, numbers, strict=True):
        deals *= WAYS[size, held][:, None]  # Hands of single cards in each multiset.
    total = int(deals[:, -1].sum())
    table = np.zeros((constraints.deck_size, len(constraints.holders)))
    for place, cards in enumerate(classes.classes):
        sums = (numbers[place] @ deals).tolist()
        for card in card_numbers(cards):
            table[card] = [weight / (total * cards.bit_count()) for weight in sums]
    for column, holder in enumerate(constraints.holders):
        table[list(card_numbers(holder.must)), column] = 1.0
    return table


def _weights(classes: CardClasses, bound: int) -> Array:
    """Return f_h of each holder, shape (multisets, holders)."""
    constraints, shape = classes.constraints, classes.shape()
    dtype = object if integer_dtype(bound) is object else np.int64
    weights = np.zeros((int(np.prod(shape)), len(constraints.holders)), dtype=dtype)
    hands = HandCovers(classes, dtype)
    strides = [int(np.prod(shape[place + 1 :])) for place in range(len(shape))]
    for seat in range(len(constraints.holders) - 1):
        table = hands.table(seat)
        codes = table.counts @ np.array([strides[place] for place in table.places], dtype=np.int64)
        weights[codes, seat] = table.weights
    envelope = constraints.holders[-1]
    open_categories = [c for c in constraints.categories if not c & envelope.must]
    for places in product(*(classes.numbers(c & envelope.may) for c in open_categories)):
        cards = sum(classes.classes[place] for place in places) | envelope.must
        if cards not in constraints.excluded:
            weights[sum(strides[place] for place in places), -1] = 1
    return weights


def _transform(values: Array, sizes: list[int], zeta: bool) -> Array:
    """Sum over subsets, or over supersets with signs; shape (multisets, holders) in and out."""
    inner = len(values)
    for size in sizes:
        inner //= size + 1
        view = values.reshape(-1, size + 1, inner * values.shape[1])
        result = np.matmul(binomials(size, zeta).astype(values.dtype), view)
        values = result.reshape(values.shape)
    return values


@lru_cache(maxsize=64)
def binomials(size: int, zeta: bool) -> Ints:
    """Return the matrix of the transform along the axis of a class of `size` alike cards.

    Shape (size + 1, size + 1).

    - `zeta`: entry [s, t] = C(s, t), the number of ways to choose t cards of s.
    - else: entry [t, s] = (-1)^(size - s) C(size - t, s - t), the number of sets of s cards out
      of all `size` that include t given ones, with the sign of inclusion and exclusion.
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
