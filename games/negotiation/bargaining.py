"""Exact reference points of a deal: Pareto frontier and Nash's solution.

J. F. Nash, "The bargaining problem", Econometrica 18 (1950), 155-162: the solution maximises the
product of the gains over the outcome without agreement: 0 for all players, or the points of walking
away where the option exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from games.negotiation.deals import Triple, Values, divisions


@dataclass(frozen=True, slots=True)
class BargainingReference:
    """Exact reference points of one deal. Points are before any discount."""

    nash: tuple[float, ...]
    """Points of each player at Nash's solution, the mean of all divisions with the largest product;
    those of walking away if no division gives all players as much."""
    most: int
    """Largest sum of points of all players."""
    frontier: frozenset[tuple[int, ...]]
    """Points of all divisions that are Pareto-optimal: no division gives one player more and none
    less."""

    def is_optimal(self, points: tuple[int, ...]) -> bool:
        """Return whether a division with these points is Pareto-optimal."""
        return points in self.frontier


def points_table(counts: Triple, values: Values) -> NDArray[np.int64]:
    """Return the points of each division: shape (divisions, players), in their order."""
    # Shapes: (divisions, players, types) and (players, types).
    shares = np.array(divisions(counts, len(values)), np.int64)
    points: NDArray[np.int64] = np.einsum("dpt,pt->dp", shares, np.array(values, np.int64))
    return points


@lru_cache(maxsize=256)
def bargaining_reference(counts: Triple, values: Values, outside: int = 0) -> BargainingReference:
    """Return the reference points of a deal, by comparing all divisions.

    Args:
        counts: Items on the table.
        values: Values of each player.
        outside: Points of each player when one walks away.
    """
    # Shape (points, players): equal points of several divisions once.
    table = np.unique(points_table(counts, values), axis=0)
    # Shape (a, b): whether division b gives no player less than division a, and one more. Equal
    # rows were merged, so no less for all means more for one, except of a row with itself.
    at_least = (table[np.newaxis] >= table[:, np.newaxis]).all(axis=2)
    # Only the row itself is at least as good for all.
    optimal = table[at_least.sum(axis=1) == 1]
    # To walk away is an outcome, too: a division that gives a player less is not agreed to.
    agreeable = optimal[(optimal >= outside).all(axis=1)]
    product = (agreeable - outside).prod(axis=1)
    # Several divisions may have the largest product; integers compare exactly.
    best = agreeable[product == product.max(initial=0)]
    if not len(best):
        best = np.full((1, len(values)), outside)
    return BargainingReference(
        tuple(float(points) for points in best.mean(axis=0)),
        max(int(table.sum(axis=1).max()), outside * len(values)),
        frozenset(tuple(int(points) for points in row) for row in optimal),
    )
