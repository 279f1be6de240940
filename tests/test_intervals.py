"""Intervals: known numbers, invariances, and coverage of the truth by simulation."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from arena.errors import UsageError
from arena.evaluation.control import PRIOR, controlled_mean
from arena.evaluation.intervals import (
    clustered_mean,
    difference_of_ratios,
    games_needed,
    games_needed_for_rates,
    rate,
    ratio_of_sums,
    student_mean,
)
from arena.evaluation.records import Estimate
from arena.evaluation.sequential import ConfidenceSequence, log_capital

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


def test_a_rate_of_nothing_can_be_anything() -> None:
    found = rate(0, 0)
    assert math.isnan(found.value)
    assert (found.low, found.high, found.n) == (0.0, 1.0, 0)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_rates_interval_holds_it_and_stays_in_bounds(seen: tuple[int, int]) -> None:
    found = rate(*seen)
    assert 0 <= found.low <= found.value <= found.high <= 1


# Means and ratios


def test_students_interval_is_that_of_scipy() -> None:
    sample = [1.0, 2.0, 4.0, 8.0]
    low, high = stats.ttest_1samp(sample, 0).confidence_interval()
    assert ends(student_mean(sample)) == pytest.approx([low, 3.75, high])


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


def test_a_sample_without_spread_is_not_certain() -> None:
    pairs = clustered_mean([0] * 20, range(20), bounds=(-1, 1))
    unseen = 1 - 0.05 ** (1 / 20)  # Rule of three: 3/20 = .15
    assert ends(pairs) == pytest.approx([-unseen, 0, unseen])
    assert clustered_mean([1] * 20, range(20), bounds=(0, 1)).high == 1
    unbounded = clustered_mean([7.0] * 20, range(20))
    assert ends(unbounded) == [-math.inf, 7, math.inf]


def test_one_deal_tells_nothing() -> None:
    assert ends(clustered_mean([1, 2], [5, 5])) == [-math.inf, 1.5, math.inf]
    assert ends(clustered_mean([1, 0], [5, 5], bounds=(0, 1))) == [0, 0.5, 1]
    assert clustered_mean([], []).n == 0


@dataclass(frozen=True, slots=True)
class Table:
    totals: Floats
    weights: Floats


def test_ratios_leave_out_games_without_the_measure() -> None:
    totals = np.array([[1, math.nan], [3, 2.0], [2, 0], [4, 1]])
    weights = np.array([[2, 1.0], [4, 4], [1, 0], [5, 2]])
    steady, rare = ratio_of_sums(totals, weights, [1, 2, 3, 4])
    assert steady.value == pytest.approx(10 / 12)
    assert rare.value == pytest.approx(3 / 6)
    assert (steady.n, rare.n) == (4, 2)
    assert ratio_of_sums(np.zeros((3, 0)), np.zeros((3, 0)), range(3)) == []
    (never,) = ratio_of_sums(np.zeros((3, 1)), np.zeros((3, 1)), range(3), bounds=(0, 1))
    assert math.isnan(never.value)
    assert (never.low, never.high, never.n) == (0, 1, 0)


def test_many_measures_take_little_time() -> None:
    rng = np.random.default_rng(0)
    totals, weights = rng.random((2, 1000, 20))
    started = time.perf_counter()
    ratio_of_sums(totals, weights, np.arange(1000))
    assert time.perf_counter() - started < 2, "0.03 s on a free core"


def test_what_a_deal_does_to_both_players_cancels() -> None:
    rng = np.random.default_rng(0)
    deals = rng.normal(size=(60, 1))
    first = Table(deals + 0.5 + 0.1 * rng.normal(size=(60, 1)), np.ones((60, 1)))
    second = Table(deals + 0.1 * rng.normal(size=(60, 1)), np.ones((60, 1)))
    (paired,) = difference_of_ratios(first, range(60), second, range(60))
    (apart,) = difference_of_ratios(first, range(60), second, range(60, 120))
    assert paired.value == pytest.approx(apart.value)
    assert paired.low < 0.5 < paired.high
    assert paired.half_width < apart.half_width / 5
    assert paired.n == apart.n == 60
    lone = clustered_mean((first.totals - second.totals)[:, 0], range(60), draws=1000)
    assert ends(paired) == pytest.approx(ends(lone))


def skewed_ratio(number: int) -> Estimate:
    rng = np.random.default_rng(number)
    weights = rng.poisson(4, 40) + 1.0
    return ratio_of_sums(rng.gamma(0.7 * weights)[:, None], weights[:, None], range(40), draws=500)[
        0
    ]


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
    first, second = (Table(totals[side], weights[side]) for side in (0, 1))
    return difference_of_ratios(first, range(10), second, range(10), draws=500)[0]


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
    # R's power.prop.test(p1 = .50, p2 = .75, power = .90) says n = 76.7.
    assert games_needed_for_rates(0.5, 0.75, power=0.9) == 77
    assert games_needed_for_rates(0.5, 0.5) is None


def test_the_games_needed_give_the_power() -> None:
    needed = games_needed(0.2, 0.6)
    assert needed is not None
    sample = np.random.default_rng(0).normal(0.2, 0.6, (2000, needed))
    found = np.asarray(stats.ttest_1samp(sample, 0, axis=1).pvalue) < 0.05
    assert np.mean(found) == pytest.approx(0.8, abs=0.04)


# Confidence sequences


def test_a_confidence_sequence_at_its_beginning_and_at_its_bounds() -> None:
    sequence = ConfidenceSequence(-1, 1)
    assert math.isnan(sequence.interval().value)
    assert ends(sequence.interval())[::2] == [-1, 1]
    losses = sequence.run([-1] * 30)
    assert set(losses.lower) == {-1}
    assert all(np.diff(losses.upper) < 0), "each loss narrows it"
    for bad in (1.5, -1.01, math.nan):
        with pytest.raises(UsageError):
            sequence.add(bad)
    with pytest.raises(UsageError):
        ConfidenceSequence(1, 1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(-5, 5), st.floats(0.5, 5))
@settings(max_examples=40, deadline=None)
def test_a_confidence_sequence_holds_the_mean_and_scales(
    sample: list[float], low: float, width: float
) -> None:
    plain, scaled = ConfidenceSequence(0, 1), ConfidenceSequence(low, low + width)
    plain.run(sample)
    scaled.run(min(low + width * value, low + width) for value in sample)
    found = plain.interval()
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.value == pytest.approx(statistics.mean(sample), abs=1e-6)
    expected = [low + width * end for end in ends(found)]
    assert ends(scaled.interval()) == pytest.approx(expected, abs=1e-4)


def test_the_order_of_games_does_not_matter() -> None:
    sample = [0.0, 1.0, 1.0, 0.3, 0.0, 1.0]
    first, second = ConfidenceSequence(0, 1), ConfidenceSequence(0, 1)
    first.run(sample)
    second.run(sample[::-1])
    assert ends(first.interval()) == pytest.approx(ends(second.interval()))


def test_the_ends_are_where_the_capital_reaches_20() -> None:
    sample = (np.random.default_rng(0).random(200) < 0.3) * 1.0
    run = ConfidenceSequence(0, 1).run(sample)
    for end in (run.lower[-1], run.upper[-1]):
        assert log_capital(sample, end, 0, 1)[-1] == pytest.approx(math.log(20), abs=1e-3)
    inside = (run.lower <= 0.3) & (run.upper >= 0.3)
    assert (inside == (log_capital(sample, 0.3, 0, 1) < math.log(20))).all()


def test_values_off_the_grid_only_widen_the_interval() -> None:
    sample = np.random.default_rng(0).random(200)
    sequence = ConfidenceSequence(0, 1)
    sequence.run(sample)
    found = sequence.interval()
    for end, inwards in ((found.low, 1e-3), (found.high, -1e-3)):
        assert log_capital(sample, end, 0, 1)[-1] >= math.log(20) - 1e-6
        assert log_capital(sample, end + inwards, 0, 1)[-1] < math.log(20), "yet hardly"


def test_a_confidence_sequence_is_as_tight_as_the_beta_binomial_mixture() -> None:
    """A uniform mixture of bets on 0/1 data has capital 1 / ((n+1) P(wins | n, m))."""
    for n in (300, 1000, 3000):
        sequence = ConfidenceSequence(0, 1)
        wins = n // 4
        for number in range(n):
            sequence.add(float(number < wins))
        candidates = np.linspace(0.001, 0.999, 4000)
        log_mixture = -math.log(n + 1) - stats.binom.logpmf(wins, n, candidates)
        inside = candidates[log_mixture < math.log(20)]
        assert sequence.interval().half_width < 1.03 * np.ptp(inside) / 2


def test_an_observation_costs_no_more_after_many() -> None:
    sequence = ConfidenceSequence(-1, 1)
    sample = np.random.default_rng(0).uniform(-1, 1, 20_000)
    started = time.perf_counter()
    for value in sample:
        sequence.add(value)
    assert (time.perf_counter() - started) / 20_000 < 1e-3
    assert sequence.interval().half_width < 0.02


BERNOULLI = [(mean, (0.0, 1.0), (1 - mean, mean)) for mean in (0.05, 0.25, 0.5)]


@pytest.mark.parametrize(
    ("truth", "range_", "chances"), [*BERNOULLI, (0.05, (-1.0, 1.0), (0.1, 0.75, 0.15))]
)
def test_a_confidence_sequence_covers_at_all_times_at_once(
    truth: float, range_: tuple[float, float], chances: tuple[float, ...]
) -> None:
    outcomes = np.linspace(*range_, len(chances))
    rng = np.random.default_rng(1)
    sample = rng.choice(outcomes, size=(400, 500), p=chances)
    # The capital is what the interval is made of; that they agree is tested above.
    reached = np.array([log_capital(row, truth, *range_).max() for row in sample])
    assert (reached < math.log(20)).mean() >= 0.94
    assert (reached < math.log(1.5)).mean() <= 0.97, "it does bet"


# The control variate


def lucky_games(rng: np.random.Generator, games: int) -> tuple[Floats, Floats]:
    """Wins that depend on luck; exactly 40 % of them on average. Everybody has a bit of luck."""
    luck: Floats = rng.uniform(-2, 2, (games, 2))
    chance = 0.4 + 0.15 * luck[:, 0] - 0.08 * luck[:, 1]
    return np.asarray(rng.random(games) < chance, np.float64), luck + 0.2


def test_taking_luck_off_is_unbiased_and_covers() -> None:
    rng = np.random.default_rng(0)
    found = [controlled_mean(*lucky_games(rng, 60)) for _ in range(1000)]
    means = np.array([each.estimate.value for each in found])
    error = means.std() / math.sqrt(len(means))
    assert means.mean() == pytest.approx(0.4, abs=3 * error)
    assert error < 0.0021
    covered = np.mean([each.estimate.low <= 0.4 <= each.estimate.high for each in found])
    assert 0.93 <= covered <= 0.97
    plain = np.array([each.plain.value for each in found])
    gain = plain.var() / means.var()
    assert gain > 1.1
    assert np.mean([each.gain for each in found]) == pytest.approx(gain, rel=0.1)
    assert 0.93 <= np.mean([each.valid for each in found]) <= 0.97


def test_a_wrong_prior_costs_variance_but_is_no_bias() -> None:
    rng = np.random.default_rng(0)
    found = [controlled_mean(*lucky_games(rng, 40), prior=-0.5) for _ in range(1000)]
    means = np.array([each.estimate.value for each in found])
    assert means.mean() == pytest.approx(0.4, abs=3 * means.std() / math.sqrt(len(means)))


def test_a_coefficient_knows_only_the_games_before() -> None:
    wins, luck = lucky_games(np.random.default_rng(0), 50)
    first = controlled_mean(wins[:1], luck[:1]).estimate.value
    assert first == pytest.approx(wins[0] - PRIOR * (luck[0, 0] - luck[0, 1]))
    before = controlled_mean(wins[:49], luck[:49]).estimate.value * 49
    last = controlled_mean(wins, luck).estimate.value * 50 - before
    other = wins.copy()
    other[49] = 1 - wins[49]
    changed = controlled_mean(other, luck).estimate.value * 50 - before
    assert changed - last == pytest.approx(1 - 2 * wins[49]), "its own result moves it one to one"


def test_the_coefficients_are_learnt() -> None:
    wins, luck = lucky_games(np.random.default_rng(0), 4000)
    found = controlled_mean(wins, luck, prior=0.0)
    correlation = float(np.corrcoef(wins, luck[:, 0] - luck[:, 1])[0, 1])
    assert found.gain == pytest.approx(1 / (1 - correlation**2), rel=0.01)


def test_luck_that_the_others_do_not_share_is_reported() -> None:
    wins, luck = lucky_games(np.random.default_rng(0), 200)
    found = controlled_mean(wins, luck)
    assert found.valid
    own, others, difference = (mean.value for mean in found.luck_means)
    assert difference == pytest.approx(own - others)
    biased = controlled_mean(wins, luck + np.array([0.5, 0.0]))
    assert not biased.valid
    assert biased.luck_means[2].low > 0


@pytest.mark.parametrize("games", [0, 1, 2])
def test_a_few_games_are_no_error(games: int) -> None:
    found = controlled_mean(np.zeros(games), np.zeros((games, 2)))
    assert found.valid
    assert found.gain == 1
    assert found.estimate.n == games
