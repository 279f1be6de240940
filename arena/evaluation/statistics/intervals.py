"""How sure an estimate is: intervals for rates, means and ratios of sums, and games needed.

Games of one deal are no independent evidence: the deal is the cluster, and clusters, not games,
are what is drawn anew. An interval of a mean or a ratio is the hull of two that fail differently:

- the expanded percentile bootstrap over clusters (Hesterberg 2015, "What teachers should know about
  the bootstrap", The American Statistician 69, section 5.2), which follows a skewed distribution;
- Student's interval from the linearised statistic with n-1 degrees of freedom (Cochran 1977,
  "Sampling techniques", chapter 6), which holds where only a few clusters differ from the rest.

Why: in 2,500 simulated samples of each kind (differences in {-1, 0, 1}, exponential values, ratios
whose weights vary, rare weights; 10 to 120 clusters) the plain percentile interval covered the
truth of ratios in 89 % to 92 % at 10 and 20 clusters, and BCa as often. With 60 differences of
which 5 % are not 0, percentile and BCa covered 80 % to 84 %; the bootstrap-t 83 %, with intervals
five times as wide; Student's 97 %. The hull covered 94 % to 97 % at 60 and 120 clusters. At 10 and
20 it covers more than it says where outcomes are few, and less (92 %) for exponential values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtrit

from arena.evaluation.records import Estimate

Floats = NDArray[np.float64]

UNBOUNDED = (-math.inf, math.inf)
CELLS = 4_000_000
"""Resampled clusters that are held at once: 32 MB."""


def rate(successes: int, n: int, level: float = 0.95) -> Estimate:
    """A rate with Wilson's interval (Wilson 1927); all of [0, 1] where nothing was seen."""
    from scipy.stats import binomtest  # Takes longer to import than everything else here.

    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    interval = binomtest(successes, n).proportion_ci(level, method="wilson")
    return Estimate(successes / n, float(interval.low), float(interval.high), n)


def student_mean(values: ArrayLike, level: float = 0.95) -> Estimate:
    """The mean of independent values, shape (n,), with Student's interval ("Student" 1908)."""
    array = np.asarray(values, np.float64)
    n = len(array)
    if n < 2:
        return Estimate(float(array[0]) if n else math.nan, *UNBOUNDED, n)
    mean = float(array.mean())
    half = -float(stdtrit(n - 1, (1 - level) / 2) * array.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def clustered_mean(
    values: ArrayLike,
    clusters: ArrayLike,
    rng_seed: int = 0,
    draws: int = 2000,
    level: float = 0.95,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Estimate:
    """The mean of `values` (n,), of which those with one entry in `clusters` (n,) belong together.

    `bounds` are what the mean can be at all. See `ratio_of_sums` for samples without spread.
    """
    totals = np.asarray(values, np.float64).reshape(-1, 1)
    sums = Sums(totals, np.ones_like(totals), clusters)
    return ratio_of_sums(sums, rng_seed, draws, level, bounds)[0]


@dataclass(frozen=True, slots=True)
class Sums:
    """What each game of a player adds to each measure; 0 or NaN in a game without it."""

    totals: Floats
    """Shape (games, measures)."""
    weights: Floats
    """Shape (games, measures)."""
    clusters: ArrayLike
    """Shape (games,), whole numbers: games with one number belong together."""


def ratio_of_sums(
    sums: Sums,
    rng_seed: int = 0,
    draws: int = 1000,
    level: float = 0.95,
    bounds: ArrayLike = UNBOUNDED,
) -> list[Estimate]:
    """For each measure sum(totals) / sum(weights), all from the same resampled clusters.

    `bounds`, (2,) or (measures, 2), are what the ratios can be at all. The `n` of an estimate
    counts the clusters in which its measure occurs.

    A sample without spread (20 differences, all 0) does not show that there is none. Within bounds
    the interval then says how often another value may yet come: in fewer than
    1 - (1 - level)^(1/n) of the clusters, about 3/n, which is exact ("rule of three", Hanley and
    Lippman-Hand 1983). Without bounds, or with fewer than two clusters, all is possible.
    """
    ratios = _Ratios(sums, np.unique(sums.clusters))
    resampled = [ratios.of(counts) for counts in _resamples(ratios.size, draws, rng_seed)]
    return _estimates(ratios.value, ratios.influence, ratios.units, resampled, bounds, level)


def difference_of_ratios(
    first: Sums,
    second: Sums,
    rng_seed: int = 0,
    draws: int = 1000,
    level: float = 0.95,
    bounds: ArrayLike = UNBOUNDED,
) -> list[Estimate]:
    """For each measure the ratio of `first` less that of `second`, paired by cluster.

    Both have the same measures and may have different games; a cluster that both have (the same
    deal) is drawn for both, so what it does to both cancels. The `n` of an estimate is the smaller
    of the two numbers of clusters. `bounds` are those of the difference; otherwise as
    `ratio_of_sums`.
    """
    clusters = np.union1d(first.clusters, second.clusters)
    one, other = _Ratios(first, clusters), _Ratios(second, clusters)
    resampled = [
        one.of(counts) - other.of(counts) for counts in _resamples(one.size, draws, rng_seed)
    ]
    influence = one.influence - other.influence
    units = np.minimum(one.units, other.units)
    return _estimates(one.value - other.value, influence, units, resampled, bounds, level)


class _Ratios:
    """Ratios of sums over all `names` of clusters (sorted, each once), for every measure."""

    def __init__(self, sums: Sums, names: NDArray[Any]) -> None:
        totals, weights = sums.totals, sums.weights
        missing = np.isnan(totals) | np.isnan(weights)
        rows = np.searchsorted(names, np.asarray(sums.clusters))
        self.size = len(names)
        self.totals = _add_up(np.where(missing, 0, totals), rows, self.size)
        self.weights = _add_up(np.where(missing, 0, weights), rows, self.size)
        with np.errstate(all="ignore"):
            weight = self.weights.sum(axis=0)
            self.value: Floats = self.totals.sum(axis=0) / weight
            self.influence: Floats = (self.totals - self.value * self.weights) / weight
        self.units = np.count_nonzero((self.weights != 0) | (self.totals != 0), axis=0)

    def of(self, counts: Floats) -> Floats:
        """The ratios (draws, measures) where each cluster is drawn so often, (draws, clusters)."""
        with np.errstate(all="ignore"):
            ratios: Floats = (counts @ self.totals) / (counts @ self.weights)
        return ratios


def _add_up(values: Floats, rows: NDArray[np.intp], size: int) -> Floats:
    """Sums (size, measures) of the values (games, measures) that belong to each row."""
    sums = np.zeros((size, values.shape[1]))
    np.add.at(sums, rows, values)
    return sums


def _resamples(size: int, draws: int, rng_seed: int) -> Iterator[Floats]:
    """How often each cluster is drawn, (draws, size) in all, a part at a time to save memory."""
    rng = np.random.default_rng(rng_seed)
    while draws > 0 and size > 0:
        rows = min(draws, max(1, CELLS // size))
        drawn = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * size)
        yield counts.reshape(rows, size).astype(float)
        draws -= rows


def _estimates(
    values: Floats,
    influences: Floats,
    units: NDArray[np.intp],
    resampled: Sequence[Floats],
    bounds: ArrayLike,
    level: float,
) -> list[Estimate]:
    """An estimate per measure, from arrays whose last axis are the measures."""
    draws = np.concatenate([*resampled, np.empty((0, len(values)))])
    limits = np.broadcast_to(np.asarray(bounds, float), (len(values), 2))
    columns = zip(values, influences.T, units, draws.T, limits, strict=True)
    return [_estimate(*column, level) for column in columns]


def _estimate(
    value: float, influence: Floats, units: int, draws: Floats, limits: Floats, level: float
) -> Estimate:
    """The hull of the two intervals, within the limits.

    `influence` (clusters,) is what each cluster adds to the error of the value, to first order.
    """
    value, n, least, most = float(value), int(units), float(limits[0]), float(limits[1])
    if n < 2 or not math.isfinite(value):
        return Estimate(value, least, most, n)
    spread = float(np.sqrt(influence @ influence))
    if spread <= 1e-12 * max(1.0, abs(value)):
        unseen = 1 - (1 - level) ** (1 / n)
        low, high = (value + unseen * (limit - value) for limit in (least, most))
        return Estimate(value, low, high, n)
    half = -stdtrit(n - 1, (1 - level) / 2) * spread * math.sqrt(n / (n - 1))
    # A percentile interval is as narrow as if the clusters' variance were divided by n and the
    # normal distribution were right; its tail is made that of Student's interval.
    tail = ndtr(math.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2))
    low, high = np.quantile(draws[np.isfinite(draws)], [tail, 1 - tail])
    return Estimate(
        value,
        max(least, float(min(low, value - half))),
        min(most, float(max(high, value + half))),
        n,
    )


def games_needed(
    difference: float, sd: float, power: float = 0.8, level: float = 0.95
) -> int | None:
    """Pairs of games that tell this mean difference from 0; None if no number does.

    `sd` is the standard deviation of one pair's difference. Two-sided test by the normal
    approximation: ((z(1 - alpha/2) + z(power)) sd / difference)^2 (Chow, Shao and Wang 2008,
    "Sample size calculations in clinical research", section 3.1).
    """
    if difference == 0 or not math.isfinite(difference) or not math.isfinite(sd):
        return None
    z = ndtri((1 + level) / 2) + ndtri(power)
    return max(2, math.ceil((z * sd / difference) ** 2))


def games_needed_for_rates(
    first: float, second: float, power: float = 0.8, level: float = 0.95
) -> int | None:
    """Games of each player, on independent deals, that tell two rates apart; None if none do.

    Two-sided, without a correction for continuity (Fleiss, Levin and Paik 2003, "Statistical
    methods for rates and proportions", formula 4.14).
    """
    if first == second or not math.isfinite(first - second):
        return None
    mean = (first + second) / 2
    under_none = ndtri((1 + level) / 2) * math.sqrt(2 * mean * (1 - mean))
    under_some = ndtri(power) * math.sqrt(first * (1 - first) + second * (1 - second))
    return max(2, math.ceil(((under_none + under_some) / (first - second)) ** 2))
