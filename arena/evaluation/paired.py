"""Comparison of two players on the same deals, by the returns of the game.

With it come the number of games that a test needs, and p-values adjusted for several comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from arena.core.game import Game
from arena.core.outcome import WIN_RATE, ReturnScale
from arena.evaluation.records import Estimate, GameResult, Interval
from arena.evaluation.report import PairedComparison
from arena.evaluation.scoring import check_returns
from arena.evaluation.statistics import LEVEL, clustered_mean, difference_of_ratios, worst_cases
from arena.evaluation.summary import Sample, bounds_of, table_names

if TYPE_CHECKING:
    from arena.evaluation.store import Results

UNKNOWN = Estimate(math.nan, -math.inf, math.inf, 0)


def compare_pairs(game: Game, pairs: Sequence[tuple[Sample, Sample]]) -> list[PairedComparison]:
    """Return the first minus the second player of each pair, of which the last is the primary one.

    The other pairs have their difference among `adjusted_p`, adjusted for their number.
    """
    scale = game.return_scale
    p_values = {
        place: _mean(np.array(first.returns) - np.array(second.returns), second, scale).p
        for place, (first, second) in enumerate(pairs[:-1])
    }
    compared, adjusted = [compare(game, *pair) for pair in pairs], holm(p_values)
    for place, p in adjusted.items():
        p_of = {**compared[place].adjusted_p, "difference": p}
        compared[place] = compared[place].model_copy(update={"adjusted_p": p_of})
    return compared


def compare(game: Game, first: Sample, second: Sample) -> PairedComparison:
    """Return player minus baseline; their rows are the deals, in the same order."""
    scale = game.return_scale
    differences = np.array(first.returns) - np.array(second.returns)
    wins = np.array(first.won, float) - np.array(second.won, float)
    sd = float(differences.std(ddof=1)) if len(second) > 1 else math.nan
    measured = _measure_differences(game, first, second)
    secondary = dict(measured)
    if not scale.is_win_rate:
        secondary["won_difference"] = _mean(wins, second, WIN_RATE)
    cut = np.array([first.truncated, second.truncated], bool)
    return PairedComparison(
        player=first.player,
        baseline=second.player,
        deals=len(second),
        difference=Interval.of(_mean(differences, second, scale)),
        won_difference=Interval.of(secondary.get("won_difference", UNKNOWN)),
        truncated=int(cut.any(axis=0).sum()),
        if_finished=_if_finished(first, second, cut, scale),
        games_needed=games_needed(float(differences.mean()), sd),
        fallback_bounds=_fallback_bounds(first, second, scale),
        measures={name: Interval.of(estimate) for name, estimate in measured.items()},
        adjusted_p=dict(holm({name: estimate.p for name, estimate in secondary.items()})),
    )


def _mean(differences: ArrayLike, sample: Sample, scale: ReturnScale) -> Estimate:
    return clustered_mean(differences, sample.deals, bounds=scale.difference)


def _fallback_bounds(first: Sample, second: Sample, scale: ReturnScale) -> Interval:
    """Bound the difference that the same pairs would have had without fallback moves.

    Games with a fallback count with the least and the greatest return, as in `_if_finished`. Empty
    if the scale has no range.
    """
    if not scale.is_bounded:
        return Interval()
    known = np.array([first.no_fallback, second.no_fallback], bool)
    ends = _worst_differences(first, second, known, scale)
    return Interval.within(*(Interval.of(_mean(end, second, scale)) for end in ends))


def _if_finished(
    first: Sample, second: Sample, cut: NDArray[np.bool_], scale: ReturnScale
) -> Interval:
    """Return the least and the greatest mean difference if no game had been truncated.

    A truncated game counts with its return so far; played to the end, it could have any return of
    the scale. These are the worst-case bounds of Manski (1990, "Nonparametric bounds on treatment
    effects", American Economic Review 80): they need no assumption, and they describe these deals
    only, without sampling error. Empty if no game was truncated or the scale has no range.
    """
    if not scale.is_bounded or not cut.any():
        return Interval()
    low, high = (float(end.mean()) for end in _worst_differences(first, second, ~cut, scale))
    return Interval(low=round(low, 6), high=round(high, 6), n=len(second))


def _worst_differences(
    first: Sample, second: Sample, known: NDArray[np.bool_], scale: ReturnScale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the greatest difference of each deal, (deals,).

    `known` (2, deals) marks the returns of the player and of the baseline that count as they are.
    """
    least, greatest = worst_cases([first.returns, second.returns], known, scale.bounds)
    # The difference is least if the player gets least and the baseline most.
    return least[0] - greatest[1], greatest[0] - least[1]


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


def games_needed(difference: float, sd: float) -> int | None:
    """Return the pairs of games that distinguish this mean difference from 0, or None.

    `sd` is the standard deviation of one pair's difference. Two-sided test with a power of 80 % and
    the normal approximation,

        n = ((z(1 - alpha/2) + z(power)) sd / difference)^2

    (Chow, Shao and Wang 2008, "Sample size calculations in clinical research", section 3.1).
    """
    if difference == 0 or not math.isfinite(difference) or not math.isfinite(sd):
        return None
    z = ndtri((1 + LEVEL) / 2) + ndtri(0.8)  # ndtri is the normal quantile function
    # The spread of the pairs cannot be estimated from fewer than 2.
    return max(2, math.ceil((z * sd / difference) ** 2))


def leading_games(results: Results, game: Game) -> Iterator[GameResult]:
    """Yield the finished games of a run up to the first one that is missing."""
    for number, result in enumerate(results.games()):
        if result.slot.number != number:
            return
        returns = (seat.returns for seat in result.seats)
        check_returns(game, returns, f"{results.folder}, game {number}")
        yield result
