"""Control variates: a mean without the luck that known probabilities explain.

A quantity x with mean 0 may be subtracted from the result y, times any coefficient beta that does
not depend on the game:

    E[y - beta x] = E[y],    Var[y - beta x] is smallest for beta = Cov[y, x] / Var[x].

The luck of `arena.evaluation.luck` has mean 0 by construction, so nothing is assumed and the
interval needs no room for a bias. Control variates in general: Owen 2013, "Monte Carlo theory,
methods and examples", chapter 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.evaluation.records import Estimate
from arena.evaluation.statistics.intervals import UNBOUNDED, clustered_mean

Floats = NDArray[np.float64]

MIN_GAMES = 20
"""Games that a regression on each half needs."""
FEWEST = 10
"""Results that differ from the most frequent one, at least. With fewer, the interval of the
remainder is too narrow at the side of the rare results."""


@dataclass(frozen=True, slots=True)
class ControlledMean:
    """A mean without luck."""

    estimate: Estimate
    variance_ratio: float
    """Variance with luck over variance without it: 1.5 saves a third of the games."""


def controlled_mean(
    y: ArrayLike, luck: ArrayLike, bounds: tuple[float, float] = UNBOUNDED
) -> ControlledMean | None:
    """Return the mean of independent results `y` (n,) without `luck` (n, controls); None if few.

    `bounds` are the least and the greatest possible mean. The coefficients are cross-fitted: those
    of the games at even places are a regression on the games at odd places, and the other way
    round. So they do not depend on the game that they are used for: a bad one costs variance, never
    validity. The order of the games must not depend on their results.
    """
    # Shapes: results and adjusted (n,), lucks (n, controls).
    results, lucks = np.asarray(y, np.float64), np.asarray(luck, np.float64)
    if _too_few(results):
        return None
    adjusted = results - _explained(results, lucks)
    # Each game is a cluster. With 60 games Student's interval alone covers in 93.7 %.
    estimate = clustered_mean(adjusted, np.arange(len(adjusted)), bounds=bounds)
    # A regression does not know the bounds.
    value = float(np.clip(estimate.value, *bounds))
    # Both variances are divided by the same n, so the choice of n or n - 1 cancels.
    ratio = float(results.var() / adjusted.var()) if adjusted.var() else 1.0
    return ControlledMean(replace(estimate, value=value), ratio)


def _too_few(results: Floats) -> bool:
    if len(results) < MIN_GAMES:
        return True
    _, counts = np.unique(results, return_counts=True)
    return len(results) - int(counts.max()) < FEWEST


def _explained(results: Floats, lucks: Floats) -> Floats:
    """Return beta x of each game (n,), with the coefficients of the half that it is not in."""
    explained = np.zeros_like(results)
    for half in (0, 1):
        y, x = results[1 - half :: 2], lucks[1 - half :: 2]
        # Least squares with an intercept, which centring replaces. A control that is always 0 gets
        # the coefficient 0.
        beta = np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(), rcond=None)[0]
        explained[half::2] = lucks[half::2] @ beta
    return explained
