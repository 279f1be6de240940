"""Columns of results, and the parts of a report from them: players, comparisons.

Two players are compared on the same deals, by the returns of the game. With the difference come the
number of games that a test needs, and p-values adjusted for several comparisons.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from arena.core.event import WIN_RATE, ReturnScale
from arena.core.game import Game
from arena.evaluation.records import (
    DECISIONS,
    LEGAL_RATE,
    Ending,
    Estimate,
    GameResult,
    Interval,
)
from arena.evaluation.report import (
    OutcomeShares,
    PairedComparison,
    PlayerReport,
    ReplyCounts,
    TurnSeries,
)
from arena.evaluation.scoring import PER_GAME, measures_of, with_own_replies
from arena.evaluation.statistics import (
    LEVEL,
    UNBOUNDED,
    Sums,
    clustered_mean,
    difference_of_ratios,
    rate,
    ratio_of_sums,
)


@dataclass(slots=True)
class MeasureColumn:
    """One measure, stored sparsely: the rows that have it, with totals and weights."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    totals: array[float] = field(default_factory=lambda: array("d"))
    weights: array[float] = field(default_factory=lambda: array("d"))


class Sample:
    """The results of one player, with a row for each seat that it held."""

    def __init__(self, player: str) -> None:
        self.player = player
        self.games = 0
        """Games in which it sat, in one seat or several; rows are seats."""
        self.deals = array("q")
        """Seed of the deal, by row."""
        self.won = array("b")
        """1 in rows of finished games that it won."""
        self.endings: Counter[Ending] = Counter()
        self.without_winner = 0
        """Rows of finished games that were lost by all players."""
        self.returns = array("d")
        self.total_return = 0.0
        self.with_fallback = 0
        """Rows of games with a fallback move of any player."""
        self.fallbacks = 0
        self._columns: dict[str, MeasureColumn] = {}

    def __len__(self) -> int:
        return len(self.deals)

    def add(self, result: GameResult, number: int, scale: ReturnScale) -> None:
        """Add one seat of one game."""
        seat, ending = result.seats[number], result.ending(number, scale)
        # `deals`, `won` and `returns` grow together, so one index serves all three.
        row = len(self)
        self.deals.append(result.slot.seed)
        self.won.append(ending == "won")
        self.endings[ending] += 1
        self.without_winner += ending == "lost" and not result.has_winner
        self.returns.append(seat.returns)
        self.total_return += seat.returns
        self.with_fallback += not result.no_fallback
        self.fallbacks += seat.fallbacks
        for name, weighted_sum in seat.measurements.items():
            # Sparse: a seat without the measure takes no memory in its column.
            column = self._columns.setdefault(name, MeasureColumn())
            column.rows.append(row)
            column.totals.append(weighted_sum.total)
            column.weights.append(weighted_sum.weight)

    def add_tested(self, result: GameResult, scale: ReturnScale) -> None:
        """Add a game, of which the seat under test counts, with the replies of all own seats."""
        assert result.slot.seat is not None
        self.games += 1
        self.add(with_own_replies(result), result.slot.seat, scale)

    @property
    def names(self) -> list[str]:
        """The measures that some row has."""
        return list(self._columns)

    def total(self, name: str) -> float:
        """Return the sum of a measure's totals; 0 for an unknown measure."""
        return sum(self._columns[name].totals) if name in self._columns else 0.0

    def weight(self, name: str) -> float:
        """Return the sum of a measure's weights; 0 for an unknown measure."""
        return sum(self._columns[name].weights) if name in self._columns else 0.0

    def sums(self, names: Sequence[str]) -> Sums:
        """Return totals and weights of these measures, (rows, measures); 0 in rows without one."""
        totals, weights = np.zeros((2, len(self), len(names)))
        for place, name in enumerate(names):
            column = self._columns.get(name)
            if column:
                # All other rows keep total and weight 0: for `Sums` they lack this measure.
                totals[column.rows, place] = column.totals
                weights[column.rows, place] = column.weights
                # A game without a reply or a call of a tool counts with 0.
                if name in PER_GAME:
                    weights[:, place] = 1.0
        return Sums(totals, weights, self.deals)

    def carried_sums(self, names: Sequence[str]) -> Sums:
        """Return the same for the points of an entropy, in order: an ended game keeps its last one.

        In a game that the player has won nothing is left to find out, so it keeps 0.

        So all points are about the same games. A mean over the games that still go on is about
        ever fewer ones, the longest, and may rise although the quantity falls in each of them.
        """
        sums, won = self.sums(names), np.array(self.won, dtype=bool)
        for place in range(1, len(names)):
            ended = sums.weights[:, place] == 0
            # A row without an earlier point keeps weight 0: it has no value yet.
            for columns in (sums.totals, sums.weights):
                columns[ended, place] = columns[ended, place - 1]
            sums.totals[ended & won, place] = 0.0
        return sums


def _outcome_shares(sample: Sample) -> OutcomeShares:
    seats = max(1, len(sample))
    shares = {ending: round(sample.endings[ending] / seats, 6) for ending in get_args(Ending)}
    fallback = round(sample.with_fallback / seats, 6)
    return OutcomeShares(**shares, fallback=fallback)


def player_report(sample: Sample, game: Game, known: Collection[str]) -> PlayerReport:
    """Return the results of one player, without a rating; `known` are the measures of all."""
    names = table_names(sample)
    estimates = ratio_of_sums(sample.sums(names), bounds=bounds_of(game, names))
    mean = clustered_mean(sample.returns, sample.deals, bounds=game.return_scale.bounds)
    return PlayerReport(
        player=sample.player,
        games=sample.games,
        seats=len(sample),
        wins=sum(sample.won),
        win_rate=_win_rate(sample, np.array(sample.won)),
        mean_return=Interval.of(mean),
        outcomes=_outcome_shares(sample),
        measures=intervals_by_name(names, estimates),
        series={"entropy": _entropy(sample, known)},
        replies=_reply_counts(sample),
    )


def intervals_by_name(names: Iterable[str], estimates: Iterable[Estimate]) -> dict[str, Interval]:
    return {name: Interval.of(e) for name, e in zip(names, estimates, strict=True)}


def _win_rate(sample: Sample, won: NDArray[Any]) -> Interval:
    """Return the share of the seats that `won` (seats,).

    Wilson's interval needs independent seats. Several seats of one deal are not independent, and
    then the deal is the cluster.
    """
    # One seat per deal: the seats are independent.
    if len(won) == len(np.unique(sample.deals)):
        return Interval.of(rate(int(won.sum()), len(won)))
    return Interval.of(clustered_mean(won, sample.deals, bounds=(0.0, 1.0)))


def table_names(sample: Sample) -> list[str]:
    """Return the measures for tables: without points of a series and counts of failures."""
    # "/" marks a point of a series, ":" a class of failures.
    return [name for name in sample.names if "/" not in name and ":" not in name]


def bounds_of(game: Game, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the least and the greatest possible value of each measure; shape (measures, 2)."""
    bounds = {measure.name: measure.bounds for measure in measures_of(game, names)}
    return np.array([bounds.get(name, UNBOUNDED) for name in names]).reshape(-1, 2)


def _entropy(sample: Sample, known: Collection[str]) -> TurnSeries:
    """Return the points `entropy/NUMBER`, which are never negative, by number.

    A game that has ended keeps its last value, or 0 if the player won, up to the last point of any
    player.
    """
    numbers = sorted(
        int(name.partition("/")[2])
        for name in known
        # At most four digits: names may come from a stored file, and `int` should stay small.
        if re.fullmatch(r"entropy/\d{1,4}", name)
    )
    sums = sample.carried_sums([f"entropy/{number}" for number in numbers])
    estimates = ratio_of_sums(sums, bounds=(0.0, math.inf))
    points = zip(numbers, estimates, strict=True)
    return {n: Interval.of(estimate) for n, estimate in points if estimate.n}


def _reply_counts(sample: Sample) -> ReplyCounts:
    failures = {
        name.partition(":")[2]: round(sample.total(name))
        for name in sample.names
        if name.startswith("failure:")
    }
    return ReplyCounts(
        decisions=round(sample.total(DECISIONS)),
        attempts=round(sample.weight(LEGAL_RATE)),
        legal=round(sample.total(LEGAL_RATE)),
        failures=failures,
        fallbacks=sample.fallbacks,
    )


# Comparisons of two players


def compare(game: Game, first: Sample, second: Sample) -> PairedComparison:
    """Return player minus baseline; their rows are the deals, in the same order."""
    scale = game.return_scale
    differences = np.array(first.returns) - np.array(second.returns)
    wins = np.array(first.won, float) - np.array(second.won, float)
    sd = float(differences.std(ddof=1)) if len(second) > 1 else math.nan
    measured = _measure_differences(game, first, second)
    secondary, won = dict(measured), Interval()
    if not scale.is_win_rate:
        secondary["won_difference"] = _mean(wins, second, WIN_RATE)
        won = Interval.of(secondary["won_difference"])
    return PairedComparison(
        player=first.player,
        baseline=second.player,
        deals=len(second),
        difference=Interval.of(_mean(differences, second, scale)),
        won_difference=won,
        games_needed=games_needed(float(differences.mean()), sd),
        measures={name: Interval.of(estimate) for name, estimate in measured.items()},
        adjusted_p=dict(holm({name: estimate.p for name, estimate in secondary.items()})),
    )


def _mean(differences: ArrayLike, sample: Sample, scale: ReturnScale) -> Estimate:
    return clustered_mean(differences, sample.deals, bounds=scale.difference)


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
