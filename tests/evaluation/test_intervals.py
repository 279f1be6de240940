"""Intervals: known numbers, invariances, and coverage of the truth by simulation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from student import student_mean

from arena.evaluation.records import Estimate
from arena.evaluation.statistics import (
    Sums,
    clustered_mean,
    difference_of_ratios,
    rate,
    ratio_of_sums,
)
from arena.evaluation.summary import games_needed

Floats = NDArray[np.float64]

values = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=2, max_size=30)


def ends(estimate: Estimate) -> list[float]:
    return [estimate.low, estimate.value, estimate.high]


def coverage(truth: float, repeat: Callable[[int], Estimate], repetitions: int = 300) -> float:
    found = [repeat(number) for number in range(repetitions)]
    return sum(each.low <= truth <= each.high for each in found) / repetitions


# Rates


def test_a_rate_has_wilsons_interval() -> None:
    found = rate(15, 148)  # Newcombe 1998, table I: .0624 to .1605
    assert found.value == pytest.approx(15 / 148)
    assert [found.low, found.high] == pytest.approx([0.0624, 0.1605], abs=5e-5)
    assert found.n == 148


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_rates_interval_holds_it_and_stays_in_bounds(seen: tuple[int, int]) -> None:
    found = rate(*seen)
    assert 0 <= found.low <= found.value <= found.high <= 1


# Means and ratios


@given(values, st.floats(-50, 50), st.floats(0.1, 10))
@settings(max_examples=40, deadline=None)
def test_a_mean_moves_with_its_values(sample: list[float], shift: float, scale: float) -> None:
    found = clustered_mean(sample, range(len(sample)), draws=200)
    moved = clustered_mean(
        [shift + scale * value for value in sample], range(len(sample)), draws=200
    )
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(statistics.mean(sample), abs=1e-9)
    if len(set(sample)) > 1:
        expected = [shift + scale * end for end in ends(found)]
        assert ends(moved) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_a_difference_of_wins_stays_within_its_bounds(sample: list[float]) -> None:
    found = clustered_mean(sample, range(len(sample)), draws=200, bounds=(-1, 1))
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert found.high > found.low


def test_games_of_one_deal_are_one_unit() -> None:
    rng = np.random.default_rng(0)
    deals = rng.normal(size=40)
    once = clustered_mean(deals, range(40))
    thrice = clustered_mean(np.repeat(deals, 3), np.repeat(range(40), 3))
    assert thrice.n == 40
    assert ends(thrice) == pytest.approx(ends(once))
    assert ends(clustered_mean(deals, range(40))) == ends(once), "the same seed, the same interval"


def test_ratios_leave_out_games_without_the_measure() -> None:
    totals = np.array([[1, math.nan], [3, 2.0], [2, 0], [4, 1]])
    weights = np.array([[2, 1.0], [4, 4], [1, 0], [5, 2]])
    steady, rare = ratio_of_sums(Sums(totals, weights, [1, 2, 3, 4]))
    assert steady.value == pytest.approx(10 / 12)
    assert rare.value == pytest.approx(3 / 6)
    assert (steady.n, rare.n) == (4, 2)
    assert ratio_of_sums(Sums(np.zeros((3, 0)), np.zeros((3, 0)), [0, 1, 2])) == []
    (never,) = ratio_of_sums(Sums(np.zeros((3, 1)), np.zeros((3, 1)), [0, 1, 2]), bounds=(0, 1))
    assert math.isnan(never.value)
    assert (never.low, never.high, never.n) == (0, 1, 0)


def test_what_a_deal_does_to_both_players_cancels() -> None:
    rng = np.random.default_rng(0)
    deals = rng.normal(size=(60, 1))
    ones = np.ones((60, 1))
    first = Sums(deals + 0.5 + 0.1 * rng.normal(size=(60, 1)), ones, range(60))
    second = Sums(deals + 0.1 * rng.normal(size=(60, 1)), ones, range(60))
    (paired,) = difference_of_ratios(first, second)
    (apart,) = difference_of_ratios(first, replace(second, clusters=range(60, 120)))
    assert paired.value == pytest.approx(apart.value)
    assert paired.low < 0.5 < paired.high
    assert paired.half_width < apart.half_width / 5
    assert paired.n == apart.n == 60
    lone = clustered_mean((first.totals - second.totals)[:, 0], range(60), draws=1000)
    assert ends(paired) == pytest.approx(ends(lone))


def percentiles_by_hand(sample: Floats, draws: int) -> tuple[float, float]:
    """Hesterberg's expanded percentile interval of a mean, by resampling with another generator."""
    n = len(sample)
    tail = stats.norm.cdf(math.sqrt(n / (n - 1)) * stats.t.ppf(0.025, n - 1))
    means = np.random.default_rng(99).choice(sample, (draws, n)).mean(axis=1)
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def test_the_interval_is_the_hull_of_students_and_the_expanded_percentiles() -> None:
    """For a skewed sample each of the two gives one end."""
    sample = np.random.default_rng(3).exponential(size=10)
    student = student_mean(sample)
    low, high = percentiles_by_hand(sample, 200_000)
    assert student.low < low - 0.05 and student.high < high - 0.05
    found = clustered_mean(sample, range(10), draws=200_000)
    assert found.low == pytest.approx(student.low)
    assert found.high == pytest.approx(high, rel=0.01)
    plain = np.quantile(np.random.default_rng(99).choice(sample, (50_000, 10)).mean(axis=1), 0.975)
    assert found.high > plain + 0.05


def test_a_difference_has_the_degrees_of_freedom_of_the_smaller_side() -> None:
    rng = np.random.default_rng(5)
    many, few = rng.normal(size=(60, 1)), rng.normal(size=(5, 1))
    first = Sums(many, np.ones_like(many), range(60))
    second = Sums(few, np.ones_like(few), range(60, 65))
    for one, other in ((first, second), (second, first)):
        (found,) = difference_of_ratios(one, other)
        assert found.n == 5
        # Standard error of the linearised difference, with n = 5 throughout.
        spread = math.sqrt(((many - many.mean()) ** 2).sum() / 60**2 + few.var() / 5)
        half = -stats.t.ppf(0.025, 4) * spread * math.sqrt(5 / 4)
        assert found.value - found.low >= half * 0.999
        assert found.high - found.value >= half * 0.999


def skewed_ratio(number: int) -> Estimate:
    rng = np.random.default_rng(number)
    weights: Floats = rng.poisson(4, 40).astype(np.float64) + 1
    sums = Sums(rng.gamma(0.7 * weights)[:, None], weights[:, None], range(40))
    return ratio_of_sums(sums, draws=500)[0]


def few_differences(number: int) -> Estimate:
    rng = np.random.default_rng(number)
    sample = rng.choice([-1.0, 0.0, 1.0], size=60, p=[0.02, 0.95, 0.03])
    return clustered_mean(sample, range(60), draws=500, bounds=(-1, 1))


def many_differences(number: int) -> Estimate:
    rng = np.random.default_rng(number)
    sample = rng.choice([-1.0, 0.0, 1.0], size=40, p=[0.1, 0.5, 0.4])
    return clustered_mean(sample, range(40), draws=500, bounds=(-1, 1))


def deals_of_three(number: int) -> Estimate:
    rng = np.random.default_rng(number)
    sample = rng.normal(size=(30, 1)) + rng.normal(size=(30, 3))
    return clustered_mean(sample.ravel(), np.repeat(range(30), 3), draws=500)


def few_differing_ratios(number: int) -> Estimate:
    """Ten deals: what the measures of deduction have to do with."""
    rng = np.random.default_rng(number)
    weights = rng.poisson(5, (2, 10, 1)) + 1.0
    deals = rng.random((10, 1))
    totals = weights * deals + rng.normal(size=(2, 10, 1))
    first, second = (Sums(totals[side], weights[side], range(10)) for side in (0, 1))
    return difference_of_ratios(first, second, draws=500)[0]


@pytest.mark.parametrize(
    ("repeat", "truth"),
    [
        (skewed_ratio, 0.7),
        (few_differences, 0.01),
        (many_differences, 0.3),
        (deals_of_three, 0.0),
        (few_differing_ratios, 0.0),
        (lambda number: rate(np.random.default_rng(number).binomial(80, 0.3), 80), 0.3),
    ],
)
def test_95_percent_of_intervals_contain_the_truth(
    repeat: Callable[[int], Estimate], truth: float
) -> None:
    assert 0.92 <= coverage(truth, repeat) <= 0.995


# Games needed


def test_games_needed_are_those_of_the_textbook() -> None:
    # (1.959964 + 0.841621)^2 = 7.8489 standard deviations, squared, over the difference squared.
    assert games_needed(0.1, 0.5) == math.ceil(7.8489 * 25)
    assert games_needed(-0.1, 0.5) == games_needed(0.1, 0.5)
    assert games_needed(0.0, 0.5) is None
    assert games_needed(math.nan, 0.5) is None
