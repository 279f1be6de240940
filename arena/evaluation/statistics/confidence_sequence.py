"""Means at any time: confidence sequences.

The interval of a fixed number of games is invalid if one plays until it looks right. A confidence
sequence contains the mean at all times simultaneously with the probability of its level, so the
run may stop at any time. At the time of stopping it covers the truth MORE often than its level:
the 95 % are for all times together, not for one.

Source: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting",
Journal of the Royal Statistical Society B 86 (2024). Symbols as there: m is a candidate for the
mean, K its capital, x an observation scaled to [0, 1].

"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from arena.core.errors import UsageError
from arena.evaluation.records import Estimate
from arena.evaluation.statistics import LEVEL, Floats

# The best stake against the ends of the interval falls about like 1/sqrt(n), so the grid is
# geometric: a few stakes serve all n.
STAKES = np.geomspace(0.01, 0.95, 16)
"""Shares of the capital that are bet, each on either side. The smallest is for tens of thousands of
games. The interval of 0/1 data is 1.65 to 1.8 times as wide as one of a fixed number of games, at
100 to 10,000 games."""
CELLS = 60
"""Observations are counted on a grid of this many equal cells; 60 has many divisors."""
EDGE = 1e-9
"""Distance that counts as 0, and distance of candidates from 0 and 1, where bets are undefined."""


class ConfidenceSequence:
    """The mean of observations in [low, high], by betting against every candidate for it.

    Against a candidate m, a gambler with capital K = 1 bets half on x > m and half on x < m. If m
    is the mean, the game is fair, and by Ville's inequality

        P(K ever reaches 1 / (1 - LEVEL)) <= 1 - LEVEL.

    The interval consists of the m whose capital is still below that limit. The bets are a mixture
    over the fixed `STAKES` c:

        K(m) = mean over c of  1/2 prod(1 + c (x/m - 1)) + 1/2 prod(1 + c ((1-x)/(1-m) - 1)).

    Each factor is log-convex in m, hence so are products and averages: the remaining candidates
    form an interval, and its ends are roots. It always contains the sample mean.

    The capital depends on the count of each value, not on their order. Only the present capital
    counts: intervals are not intersected with earlier ones, because the intersection is empty if
    the assumption fails.

    The assumption: given the past, each observation has the same mean. It holds for independent
    deals and a player that does not learn meanwhile; seats in a fixed rotation violate it mildly.
    """

    def __init__(self, low: float, high: float) -> None:
        if not low < high:
            raise UsageError(f"range [{low}, {high}]: give low < high")
        self.low, self.high = low, high
        self.n = 0
        self._target = -math.log(1 - LEVEL)  # log of the capital that excludes a candidate
        self._counts = np.zeros(CELLS + 1)  # observations at each grid point 0, 1/60, …, 1

    def add(self, x: float) -> None:
        """Add one observation. Raises UsageError if it is out of range."""
        if not self.low <= x <= self.high:
            raise UsageError(f"the observation {x} is not in [{self.low}, {self.high}]")
        # A value between two grid points is split between them in proportion. By Jensen's
        # inequality this lowers the capital, so the coverage is kept. 0/1 data and differences of
        # wins are on the grid: rounding removes the error of the division.
        place = (x - self.low) / (self.high - self.low) * CELLS
        # below <= CELLS - 1, so that below + 1 is on the grid also for x = high. With EDGE, a value
        # that is below its grid point only by rounding stays at that point.
        below = min(int(place + EDGE), CELLS - 1)
        above = min(max(place - below, 0.0), 1.0)
        share = round(above) if abs(above - round(above)) < EDGE else above
        # The two parts add up to 1 and their mean is x: the split does not change the sample mean.
        self._counts[below] += 1 - share
        self._counts[below + 1] += share
        self.n += 1

    def interval(self) -> Estimate:
        """Return the mean so far with the smallest and the largest remaining candidate."""
        # Without data no candidate is excluded.
        if not self.n:
            return Estimate(math.nan, self.low, self.high, 0)
        # The distinct observations, scaled to [0, 1]. There are at most CELLS + 1: the cost of a
        # root does not grow with n.
        cells = np.flatnonzero(self._counts)
        values, counts = cells / CELLS, self._counts[cells]
        # mean = sum(count * value) / n; counts may be fractions, but they add up to n.
        center = float(values @ counts / counts.sum())

        def excess(candidate: float) -> float:
            # log K(m) + log(1 - LEVEL): above 0, the candidate is excluded. Equal observations have
            # equal factors: log prod = sum(count * log factor) per bet.
            logs = counts @ log_factors(values, candidate)
            return float(np.logaddexp.reduce(logs)) - math.log(len(logs)) - self._target

        # log K is convex with K <= 1 at the sample mean: one root on either side of it.
        lower, upper = (_root(excess, center, limit) for limit in (0.0, 1.0))
        # Back from shares of the range to the units of the observations.
        width = self.high - self.low
        mean, low, high = (self.low + share * width for share in (center, lower, upper))
        return Estimate(mean, low, high, self.n)


def log_factors(values: Floats, candidate: float) -> Floats:
    """Return the log of each bet's factor at each value (n,); shape (n, 2 * stakes)."""
    # Bets on x > m: log(1 + c (x/m - 1)); then bets on x < m: log(1 + c ((1-x)/(1-m) - 1)).
    above = np.outer(values / candidate - 1, STAKES)
    below = np.outer((1 - values) / (1 - candidate) - 1, STAKES)
    # x/m - 1 >= -1, so each factor is at least 1 - max(STAKES) = 0.05 and its log is finite.
    logs: Floats = np.log1p(np.concatenate([above, below], axis=1))
    return logs


def _root(excess: Callable[[float], float], inside: float, limit: float) -> float:
    """Return where `excess` becomes positive between `inside`, where it is negative, and `limit`.

    If it does not, all candidates up to the limit remain.
    """
    # x/m is undefined at m = 0 and (1-x)/(1-m) at m = 1, hence the distance EDGE.
    edge = min(max(limit, EDGE), 1 - EDGE)
    # At the sample mean log K <= 0 < target, so a sign change on the way has exactly one root.
    if abs(inside - limit) <= EDGE or excess(edge) <= 0:
        return limit
    # xtol is a share of the range high - low.
    from scipy.optimize import brentq  # Takes half a second, for few commands.

    return float(brentq(excess, min(max(inside, EDGE), 1 - EDGE), edge, xtol=1e-7))
