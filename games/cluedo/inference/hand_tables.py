"""Tables for counting hands: hands as counts per class of cards, binomials and integer scales.

A *class* is a set of unknown cards that no constraint tells apart. A hand is described by how many
cards of each class it has, so that one row of counts represents many hands of single cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from games.cluedo.inference.constraints import Holder

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Array = NDArray[Any]
"""Array of int32 or int64 or, if these are too narrow, of Python's integers (dtype object)."""


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
    """Return the dtype for integers up to `greatest`: 32 or 64 bits, or Python's own integers."""
    # One bit is left beside the sign.
    if greatest < 2**30:
        return np.int32
    return np.int64 if greatest < 2**62 else object


# WAYS[n, k] = binomial(n, k). The largest deck has 36 cards.
WAYS = np.array([[comb(n, k) for k in range(37)] for n in range(37)], dtype=np.int64)


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
