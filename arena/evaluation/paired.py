"""Comparison of a player with a baseline on the same deals, by the returns of the game."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.core.game import Game
from arena.core.outcome import WIN_RATE, ReturnScale
from arena.evaluation.records import Estimate
from arena.evaluation.report import PairedComparison
from arena.evaluation.report_parts import CountRange, Interval
from arena.evaluation.statistics.holm import holm
from arena.evaluation.statistics.intervals import (
    clustered_mean,
    difference_of_ratios,
    worst_cases,
)
from arena.evaluation.statistics.sample_size import (
    games_needed,
    games_needed_for_rates,
    games_range,
    sum_of_variances,
    variance,
)
from arena.evaluation.statistics.samples import Sample
from arena.evaluation.summary import bounds_of, table_names

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
        difference=Interval.of(_mean(differences, second.deals, scale)),
        won_difference=Interval.of(secondary.get("won_difference", UNKNOWN)),
        truncated=int(_truncated(first, second).any(axis=0).sum()),
        if_finished=if_finished(first, second, scale),
        games_needed=needed,
        games_needed_range=_range(needed, variance(differences)),
        games_needed_unpaired=unpaired,
        games_needed_unpaired_range=_range(unpaired, _unpaired_variance(first, second)),
        fallback_bounds=_fallback_bounds(first, second, scale),
        measures={name: Interval.of(estimate) for name, estimate in measured.items()},
        adjusted_p=dict(holm({name: estimate.p for name, estimate in secondary.items()})),
    )


def _mean(differences: ArrayLike, deals: ArrayLike, scale: ReturnScale) -> Estimate:
    return clustered_mean(differences, deals, bounds=scale.difference)


def _range(needed: int | None, spread: Estimate | None) -> CountRange | None:
    ends = games_range(needed, spread)
    return None if ends is None else CountRange(*ends)


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
