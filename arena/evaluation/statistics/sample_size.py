"""Number of games that a test needs, with its interval."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from arena.evaluation.records import Estimate
from arena.evaluation.statistics.intervals import LEVEL


def games_needed(difference: float, sd: float, power: float = 0.8) -> int | None:
    """Return the pairs of games that distinguish this mean difference from 0, or None.

    `sd` is the standard deviation of one pair's difference. Two-sided test with the normal
    approximation,

        n = ((z(1 - alpha/2) + z(power)) sd / difference)^2

    (Chow, Shao and Wang 2008, "Sample size calculations in clinical research", section 3.1).
    """
    if difference == 0 or not math.isfinite(difference) or not math.isfinite(sd):
        return None
    z = ndtri((1 + LEVEL) / 2) + ndtri(power)  # ndtri is the normal quantile function
    # The spread of the pairs cannot be estimated from fewer than 2.
    return max(2, math.ceil((z * sd / difference) ** 2))


def games_needed_for_rates(first: float, second: float, power: float = 0.8) -> int | None:
    """Return the games of each player, on independent deals, that distinguish two rates, or None.

    Two-sided, without continuity correction:

        n = ((z(1 - alpha/2) sqrt(2 p q) + z(power) sqrt(p1 q1 + p2 q2)) / (p1 - p2))^2

    with p the mean of both rates and q = 1 - p (Fleiss, Levin and Paik 2003, "Statistical methods
    for rates and proportions", formula 4.14).
    """
    if first == second or not math.isfinite(first - second):
        return None
    # Both players have the same number of games, so the pooled rate p is the plain mean.
    mean = (first + second) / 2
    # Standard deviations under the null hypothesis (equal rates) and under the alternative.
    under_null = ndtri((1 + LEVEL) / 2) * math.sqrt(2 * mean * (1 - mean))
    under_alternative = ndtri(power) * math.sqrt(first * (1 - first) + second * (1 - second))
    return max(2, math.ceil(((under_null + under_alternative) / (first - second)) ** 2))


def variance(values: ArrayLike) -> Estimate | None:
    """Return the variance of independent values (n,) with its interval; None if it is not known.

    The interval of Bonett (2006, "Approximate confidence interval for standard deviation of
    nonnormal distributions", Computational Statistics & Data Analysis 50), for the variance:

        exp(ln(c s^2) -/+ z(1 - alpha/2) se),    c = n / (n - z(1 - alpha/2)),
        se = c sqrt((k - (n - 3) / n) / (n - 1)),

    where k is the kurtosis around a mean without the share 1 / (2 sqrt(n - 4)) of values at each
    end. The usual one by chi-square is for normal values: for differences of wins in 100 deals, of
    which 5 % differ, it covers the truth in 52 %, this one in 97 %.
    """
    array = np.sort(np.asarray(values, np.float64))
    n, spread = len(array), float(array.var(ddof=1)) if len(array) > 1 else 0.0
    # Fewer than 5 values have no kurtosis; equal values do not show how much others may differ.
    if n < 5 or spread == 0:
        return None
    z = float(ndtri((1 + LEVEL) / 2))
    cut = int(n / (2 * math.sqrt(n - 4)))
    middle = array[cut : n - cut].mean()
    kurtosis = n * float(((array - middle) ** 4).sum() / (spread * (n - 1)) ** 2)
    # The factor c removes most of the bias of ln s^2 in small samples.
    factor = n / (n - z)
    error = factor * math.sqrt((kurtosis - (n - 3) / n) / (n - 1))
    low, high = (factor * spread * math.exp(side * z * error) for side in (-1, 1))
    return Estimate(spread, low, high, n)


def sum_of_variances(first: Estimate, second: Estimate) -> Estimate:
    """Return the sum of two variances with its interval.

    The distances of the ends are added in squares (MOVER; Zou and Donner 2008, "Construction of
    confidence limits about effect measures: a general approach", Statistics in Medicine 27), as for
    independent samples.
    """
    value = first.value + second.value
    below = math.hypot(first.value - first.low, second.value - second.low)
    above = math.hypot(first.high - first.value, second.high - second.value)
    return Estimate(value, max(0.0, value - below), value + above, min(first.n, second.n))


def games_range(needed: int | None, spread: Estimate | None) -> tuple[int, int] | None:
    """Return the interval of a number of games that is proportional to this variance.

    The difference that the games show is given, so only the variance is uncertain. None if either
    is not known.
    """
    if needed is None or spread is None:
        return None
    ratios = spread.low / spread.value, spread.high / spread.value
    low, high = (max(2, math.ceil(needed * ratio)) for ratio in ratios)
    return low, high
