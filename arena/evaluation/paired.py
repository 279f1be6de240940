"""Comparison of two players on the same deals, by the returns of the game.

With it come the number of games that a test needs, and p-values adjusted for several comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from arena.core.game import Game
from arena.core.outcome import WIN_RATE, ReturnScale
from arena.evaluation.records import CountRange, Estimate, GameResult, Interval
from arena.evaluation.report import PairedComparison
from arena.evaluation.scoring import check_returns
from arena.evaluation.statistics import LEVEL, clustered_mean, difference_of_ratios, worst_cases
from arena.evaluation.summary import Sample, bounds_of, table_names

if TYPE_CHECKING:
    from arena.evaluation.store import Results

UNKNOWN = Estimate(math.nan, -math.inf, math.inf, 0)


def compare(game: Game, first: Sample, second: Sample) -> PairedComparison:
    """Return player minus baseline; their rows are the deals, in the same order."""
    # The last deal may still lack the baseline's game: only complete pairs count.
    deals, scale = len(second), game.return_scale
    differences = np.array(first.returns[:deals]) - np.array(second.returns)
    wins = np.array(first.won[:deals], float) - np.array(second.won, float)
    sd = float(differences.std(ddof=1)) if deals > 1 else math.nan
    needed = games_needed(float(differences.mean()), sd)
    unpaired = _games_needed_unpaired(first, second, scale)
    measured = _measure_differences(game, first, second)
    secondary = dict(measured)
    if not scale.is_win_rate:
        secondary["won_difference"] = _mean(wins, second.deals, WIN_RATE)
    return PairedComparison(
        player=first.player,
        baseline=second.player,
        deals=deals,
        difference=Interval.of(difference_of_returns(first, second, scale)),
        won_difference=Interval.of(secondary.get("won_difference", UNKNOWN)),
        truncated=int(_truncated(first, second).any(axis=0).sum()),
        if_finished=if_finished(first, second, scale),
        games_needed=needed,
        games_needed_range=games_range(needed, variance(differences)),
        games_needed_unpaired=unpaired,
        games_needed_unpaired_range=games_range(unpaired, _unpaired_variance(first, second)),
        fallback_bounds=_fallback_bounds(first, second, scale),
        measures={name: Interval.of(estimate) for name, estimate in measured.items()},
        adjusted_p=dict(holm({name: estimate.p for name, estimate in secondary.items()})),
    )


def difference_of_returns(first: Sample, second: Sample, scale: ReturnScale) -> Estimate:
    """Return the mean difference of the returns on the deals that both have played."""
    differences = np.array(first.returns[: len(second)]) - np.array(second.returns)
    return _mean(differences, second.deals, scale)


def _mean(differences: ArrayLike, deals: ArrayLike, scale: ReturnScale) -> Estimate:
    return clustered_mean(differences, deals, bounds=scale.difference)


def _unpaired_variance(first: Sample, second: Sample) -> Estimate | None:
    """Return the variance of the difference of two returns from independent deals."""
    one, other = variance(first.returns), variance(second.returns)
    return None if one is None or other is None else sum_of_variances(one, other)


def _fallback_bounds(first: Sample, second: Sample, scale: ReturnScale) -> Interval:
    """Bound the difference that the same pairs would have had without fallback moves.

    Games with a fallback count with the least and the greatest return, as in `if_finished`. Empty
    if the scale has no range.
    """
    if not scale.is_bounded:
        return Interval()
    known = np.array([first.no_fallback[: len(second)], second.no_fallback], bool)
    ends = _worst_differences(first, second, known, scale)
    worst, best = (Interval.of(_mean(end, second.deals, scale)) for end in ends)
    return Interval.within(worst, best)


def _worst_differences(
    first: Sample, second: Sample, known: NDArray[np.bool_], scale: ReturnScale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the greatest difference of each deal, (deals,).

    `known` (2, deals) marks the returns of the player and of the baseline that count as they are.
    """
    returns = np.array([first.returns[: len(second)], second.returns])
    least, greatest = worst_cases(returns, known, scale.bounds)
    # The difference is least if the player gets least and the baseline most.
    return least[0] - greatest[1], greatest[0] - least[1]


def _truncated(first: Sample, second: Sample) -> NDArray[np.bool_]:
    """Return which games of the pairs were truncated, (2, deals)."""
    return np.array([first.truncated[: len(second)], second.truncated], bool)


def if_finished(first: Sample, second: Sample, scale: ReturnScale) -> Interval:
    """Return the least and the greatest mean difference if no game had been truncated.

    A truncated game counts with its return so far; played to the end, it could have any return of
    the scale. These are the worst-case bounds of Manski (1990, "Nonparametric bounds on treatment
    effects", American Economic Review 80): they need no assumption, and they describe these deals
    only, without sampling error. Empty if no game was truncated or the scale has no range.
    """
    cut = _truncated(first, second)
    if not scale.is_bounded or not cut.any():
        return Interval()
    low, high = (float(end.mean()) for end in _worst_differences(first, second, ~cut, scale))
    return Interval(low=round(low, 6), high=round(high, 6), n=len(second))


def _games_needed_unpaired(first: Sample, second: Sample, scale: ReturnScale) -> int | None:
    """Return the games of each player, on independent deals, that show this difference.

    For means, n = ((z(1 - alpha/2) + z(power)) / difference)^2 (sd1^2 + sd2^2) (Chow, Shao and Wang
    2008, section 3.2): that of one sample with the standard deviation of an unpaired difference.
    """
    if scale.is_win_rate:
        return games_needed_for_rates(sum(first.won) / len(first), sum(second.won) / len(second))
    if len(second) < 2:
        return None
    returns = np.array(first.returns), np.array(second.returns)
    difference = float(returns[0].mean() - returns[1].mean())
    return games_needed(difference, math.hypot(*(each.std(ddof=1) for each in returns)))


def _measure_differences(game: Game, first: Sample, second: Sample) -> dict[str, Estimate]:
    both = [name for name in table_names(first) if name in second.names]
    low, high = bounds_of(game, both).T
    # The difference of two values in [low, high] lies in [low - high, high - low].
    bounds = np.stack([low - high, high - low], axis=1)
    differences = difference_of_ratios(first.sums(both), second.sums(both), bounds=bounds)
    return dict(zip(both, differences, strict=True))


Name = TypeVar("Name", bound=Hashable)


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Return p-values that are adjusted for the number of comparisons; NaN is left out.

    Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6. With m p-values in rising order, the adjusted one in place k (from 0) is

        max(min(1, (m - j) p[j]) for j <= k).

    The probability that any true hypothesis has one of at most 0.05 is at most 0.05, however the
    comparisons depend on each other.
    """
    known = {name: p for name, p in p_values.items() if not math.isnan(p)}
    adjusted, least = dict[Name, float](), 0.0
    for place, name in enumerate(sorted(known, key=known.__getitem__)):
        # Never below an earlier one: a larger p must not become the smaller adjusted one.
        least = max(least, min(1.0, (len(known) - place) * known[name]))
        adjusted[name] = least
    return adjusted


def games_needed(difference: float, sd: float, power: float = 0.8) -> int | None:
    """Return the pairs of games that distinguish this mean difference from 0, or None.

    `sd` is the standard deviation of one pair's difference. Two-sided test with this power and the
    normal approximation,

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


def games_range(needed: int | None, spread: Estimate | None) -> CountRange | None:
    """Return the interval of a number of games that is proportional to this variance.

    The difference that the games show is given, so only the variance is uncertain. None if either
    is not known.
    """
    if needed is None or spread is None:
        return None
    ratios = spread.low / spread.value, spread.high / spread.value
    return CountRange(*(max(2, math.ceil(needed * ratio)) for ratio in ratios))


def leading_games(results: Results, game: Game) -> Iterator[GameResult]:
    """Yield the finished games of a results file up to the first one that is missing."""
    for number, result in enumerate(results.games()):
        if result.slot.number != number:
            return
        returns = (seat.returns for seat in result.seats)
        check_returns(game, returns, f"{results.path}, game {number}")
        yield result
