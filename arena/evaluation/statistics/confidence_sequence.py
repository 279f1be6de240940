"""A confidence sequence: an interval that may be looked at after every game.

The interval of a fixed number of games is wrong if one plays on until it looks right. A confidence
sequence contains the mean at all times at once, with the probability of its level, so one may stop
whenever one likes. At the moment of stopping it therefore covers the truth MORE often than its
level: 95 % are the price of all moments together, not of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from arena.core.errors import UsageError
from arena.evaluation.records import Estimate

Floats = NDArray[np.float64]

STAKES = np.geomspace(0.01, 0.95, 16)
"""Shares of the capital that are bet, each on either side. The smallest is made for tens of
thousands of games; the interval of 0/1 data is 1.65 to 1.8 times as wide as one of a fixed number
of games, at 100 to 10,000 games."""
CELLS = 60
"""Observations are counted on this many equal parts of their range; 60 has the most divisors."""
EDGE = 1e-9


@dataclass(frozen=True, slots=True)
class Run:
    """The ends of the interval after each observation."""

    lower: Floats
    """(n,)"""
    upper: Floats
    """(n,)"""


class ConfidenceSequence:
    """The mean of observations in [low, high], by betting against every candidate for it.

    Source: Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting",
    JRSS-B 86. Against a candidate m a gambler whose capital is 1 bets half of it on x > m and half
    on x < m. If m is the mean, the game is fair, and by Ville's inequality the capital ever reaches
    1 / (1 - level) with probability 1 - level at most; the m against which it has not are the
    interval. The bets are a mixture: the capital is the average, over the fixed `STAKES` c, of the
    products of 1 + c (x/m - 1) and of 1 + c ((1-x)/(1-m) - 1), for x scaled to [0, 1]. Each factor
    is log-convex in m, and so are products and averages: what is left is an interval, and its ends
    are roots. The sample mean is always in it.

    The capital depends on how often each value came, not on the order. Only the present capital
    counts: there is no intersection with earlier intervals, which is empty when the assumption
    fails. A value between two grid points is split between them in proportion, which lowers the
    capital (Jensen) and so keeps the coverage; 0/1 data and differences of wins lie on the grid.

    It assumes that, given the past, every observation has the same mean: independent deals, and a
    player that does not learn meanwhile. Seats that go round in a fixed order break it mildly.
    """

    def __init__(self, low: float, high: float, level: float = 0.95) -> None:
        if not low < high or not 0 < level < 1:
            raise UsageError(f"no observations lie in [{low}, {high}], or no level is {level}")
        self.low, self.high = low, high
        self.n = 0
        self._target = -math.log(1 - level)
        self._counts = np.zeros(CELLS + 1)

    def add(self, x: float) -> None:
        """Count one observation; raises UsageError if it is out of range."""
        if not self.low <= x <= self.high:
            raise UsageError(f"the observation {x} is not in [{self.low}, {self.high}]")
        place = (x - self.low) / (self.high - self.low) * CELLS
        below = min(int(place + EDGE), CELLS - 1)
        above = min(max(place - below, 0.0), 1.0)
        share = round(above) if abs(above - round(above)) < EDGE else above
        self._counts[below] += 1 - share
        self._counts[below + 1] += share
        self.n += 1

    def interval(self) -> Estimate:
        """The mean so far, and the candidates that are left."""
        if not self.n:
            return Estimate(math.nan, self.low, self.high, 0)
        seen = _Values.of(self._counts)

        def excess(candidate: float) -> float:
            return seen.log_capital(candidate) - self._target

        lower, upper = (_root(excess, seen.mean, limit) for limit in (0.0, 1.0))
        mean, low, high = (self._unscaled(end) for end in (seen.mean, lower, upper))
        return Estimate(mean, low, high, self.n)

    def run(self, values: Iterable[float]) -> Run:
        """Add each of the values, and tell the interval after each."""
        ends = []
        for value in values:
            self.add(value)
            ends.append(self.interval())
        return Run(np.array([end.low for end in ends]), np.array([end.high for end in ends]))

    def _unscaled(self, share: float) -> float:
        return self.low + share * (self.high - self.low)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that were seen, scaled to [0, 1], and how often each was."""

    values: Floats
    counts: Floats

    @staticmethod
    def of(counts: Floats) -> _Values:
        seen = np.flatnonzero(counts)
        return _Values(seen / CELLS, counts[seen])

    @property
    def mean(self) -> float:
        return float(self.values @ self.counts / self.counts.sum())

    def log_capital(self, candidate: float) -> float:
        """The logarithm of what betting against this mean has made of 1."""
        return float(_log_mean(self.counts @ log_factors(self.values, candidate)))


def log_factors(values: Floats, candidate: float) -> Floats:
    """By what each bet multiplies its stake at each value, as logarithms; shape (n, bets)."""
    above = np.outer(values / candidate - 1, STAKES)
    below = np.outer((1 - values) / (1 - candidate) - 1, STAKES)
    logs: Floats = np.log1p(np.concatenate([above, below], axis=1))
    return logs


def _log_mean(logs: Floats) -> Floats:
    """The logarithm of the mean of exp(logs) along the last axis."""
    top = logs.max(axis=-1, keepdims=True)
    mean: Floats = np.log(np.exp(logs - top).mean(axis=-1)) + top[..., 0]
    return mean


def log_capital(values: ArrayLike, mean: float, low: float, high: float) -> Floats:
    """How the capital against `mean` goes with each of `values` (..., n); shape (..., n).

    The sequence's interval contains `mean` as long as this is below -log(1 - level). It is how
    simultaneous coverage is measured in little time; the values are not put on the grid.
    """
    scaled = (np.asarray(values, float) - low) / (high - low)
    factors = log_factors(scaled.ravel(), (mean - low) / (high - low))
    return _log_mean(factors.reshape(*scaled.shape, -1).cumsum(axis=-2))


def _root(excess: Callable[[float], float], inside: float, limit: float) -> float:
    """Where `excess` rises above 0 on the way from `inside`, where it is negative, to the limit."""
    edge = min(max(limit, EDGE), 1 - EDGE)
    if abs(inside - limit) <= EDGE or excess(edge) <= 0:
        return limit
    return float(brentq(excess, min(max(inside, EDGE), 1 - EDGE), edge, xtol=1e-7))
