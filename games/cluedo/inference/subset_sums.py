"""Sums over sets of unknown cards, one class of alike cards at a time.

A class of n alike cards is one axis of length n + 1: index s represents the sets that have s of its
cards. All sums are exact, in int64 modulo 2**64 or in Python's integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from games.cluedo.inference.hand_tables import Array, binomials

SHORT = 32
"""Elements below which a loop over inner axes is short."""


@dataclass(frozen=True, slots=True)
class ClassAxis:
    """A class of unknown cards: an axis of length `size + 1` of arrays over sets of cards."""

    size: int
    cards: int
    possible: bool
    """Whether the envelope may hold one of the cards."""


def subset_sums(values: Array, sizes: Sequence[int]) -> Array:
    """Return the sum over all subsets, flat; may change `values` (zeta transform).

    Args:
        values: Flat array over the multisets of the classes, in row-major order.
        sizes: The number of cards in each class.
    """
    return _transform(values, sizes, _add)


def superset_sums(values: Array, sizes: Sequence[int], kept: Sequence[int]) -> Array:
    """Return the signed sums over all supersets of the sets of `kept` classes, flat.

    A class outside `kept` has no card in such a set: its axis becomes one number, the sum over s of
    (-1)^(n-s) C(n, s) values[s]. These come first, so that the array soon gets small.

    Args:
        values: Flat array over the multisets of all classes, in row-major order; may be changed.
        sizes: The number of cards in each class.
        kept: Numbers of the classes that keep their axis, in ascending order.
    """
    outer = 1
    for place, size in enumerate(sizes):
        if place in kept:
            outer *= size + 1
            continue
        view = values.reshape(outer, size + 1, -1)
        # The difference of order n, by n differences of neighbours.
        for _ in range(size):
            view = view[:, 1:] - view[:, :-1]
        values = view
    return _transform(values.reshape(-1), [sizes[place] for place in kept], _subtract)


def _transform(values: Array, sizes: Sequence[int], step: Callable[[Array, int], None]) -> Array:
    """Apply `step` to the axis of each class, in place."""
    # The innermost axes make short and therefore slow loops. So these are made the outer axes by a
    # transposition before their steps.
    half, inner = len(sizes), 1
    while half and inner < SHORT:
        half -= 1
        inner *= sizes[half] + 1
    for part in (sizes[:half], sizes[half:]):
        length = values.size
        for size in part:
            length //= size + 1
            step(values.reshape(-1, size + 1, length), size)
        # After the second time the axes are in order again.
        if half:
            values = values.reshape(-1, inner).T.reshape(-1)
            inner = values.size // inner
    return values


def _add(view: Array, size: int) -> None:
    """Replace index s by the sum over t of C(s, t) times index t."""
    for first in range(1, size + 1):
        for place in range(size, first - 1, -1):
            view[:, place] += view[:, place - 1]  # Pascal's rule.


def _subtract(view: Array, size: int) -> None:
    """Replace index t by the difference of order n - t: the signed sum over supersets."""
    for last in range(size, 0, -1):
        for place in range(last):
            np.subtract(view[:, place + 1], view[:, place], out=view[:, place])


def sum_class(sums: Array, axis: ClassAxis) -> Array:
    """Sum over the cards of one class, without and with one of them in the envelope.

    Shape (answers, choices of this category so far, sets) in and out. Choice 0 is an envelope with
    none of the cards so far. If the envelope may have a card of this class, that is a new last
    choice.
    """
    answers, choices, _ = sums.shape
    # The class is the outermost axis of the sets that remain.
    view = sums.reshape(answers, choices, axis.size + 1, -1)
    out = np.empty((answers, choices + axis.possible, view.shape[-1]), dtype=sums.dtype)
    # Inclusion and exclusion over the s of n cards of the class that the set S has:
    #   no card in the envelope:      sum over s of (-1)^(n-s) C(n, s) view[s],
    #   one given card in it (s >= 1): sum over s of (-1)^(n-s) C(n-1, s-1) view[s].
    if axis.size == 1:
        np.subtract(view[:, :, 1], view[:, :, 0], out=out[:, :choices])
        if axis.possible:
            out[:, choices] = view[:, 0, 1]
        return out
    # Rows t = 0 and t = 1 of the matrix: none, or one given card, in the envelope.
    signs = binomials(axis.size, zeta=False)[:2].astype(sums.dtype)
    out[:, :choices] = np.matmul(signs[:1], view)[:, :, 0]
    # Only from choice 0: the envelope has one card of a category.
    if axis.possible:
        out[:, choices] = np.matmul(signs[1:], view[:, 0])[:, 0]
    return out
