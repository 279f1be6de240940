"""Luck taken out of results: unbiased where its mean is 0, and careful where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from arena.evaluation.statistics.control_variate import PRIOR, controlled_mean
from arena.evaluation.statistics.intervals import rate

Floats = NDArray[np.float64]


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
    assert covered >= 0.94
    plain = np.array([each.plain.value for each in found])
    assert plain.var() / means.var() > 1.05
    assert np.mean([each.variance_ratio for each in found]) > 1.1
    assert 0.93 <= np.mean([each.valid for each in found]) <= 0.97


def test_a_wrong_prior_costs_variance_but_is_no_bias() -> None:
    rng = np.random.default_rng(0)
    found = [controlled_mean(*lucky_games(rng, 40), prior=-0.5) for _ in range(1000)]
    means = np.array([each.estimate.value for each in found])
    assert means.mean() == pytest.approx(0.4, abs=3 * means.std() / math.sqrt(len(means)))


def test_a_coefficient_knows_only_the_games_before() -> None:
    wins, luck = lucky_games(np.random.default_rng(0), 50)
    wins = 3 * wins + 2  # Scores, which are not too few for the control.
    first = controlled_mean(wins[:1], luck[:1]).estimate.value
    assert first == pytest.approx(wins[0] - PRIOR * (luck[0, 0] - luck[0, 1]))
    before = controlled_mean(wins[:49], luck[:49]).estimate.value * 49
    last = controlled_mean(wins, luck).estimate.value * 50 - before
    other = wins.copy()
    other[49] = 7 - wins[49]
    changed = controlled_mean(other, luck).estimate.value * 50 - before
    assert changed - last == pytest.approx(7 - 2 * wins[49]), "its own result moves it one to one"


def test_the_coefficients_are_learnt() -> None:
    wins, luck = lucky_games(np.random.default_rng(0), 4000)
    found = controlled_mean(wins, luck, prior=0.0)
    correlation = float(np.corrcoef(wins, luck[:, 0] - luck[:, 1])[0, 1])
    assert found.variance_ratio == pytest.approx(1 / (1 - correlation**2), rel=0.01)


def test_luck_that_the_others_do_not_share_is_reported() -> None:
    wins, luck = lucky_games(np.random.default_rng(0), 200)
    found = controlled_mean(wins, luck)
    assert found.valid
    own, others, difference = (mean.value for mean in found.luck_means)
    assert difference == pytest.approx(own - others)
    biased = controlled_mean(wins, luck + np.array([0.5, 0.0]))
    assert biased.fault == "mean" and biased.estimate == biased.plain
    assert biased.luck_means[2].low > 0


@pytest.mark.parametrize("games", [0, 1, 2])
def test_a_few_games_are_no_error(games: int) -> None:
    found = controlled_mean(np.zeros(games), np.zeros((games, 2)))
    assert found.fault == "few" and found.estimate == found.plain
    assert found.variance_ratio == 1
    assert found.estimate.n == games


def test_the_room_for_bias_is_told() -> None:
    """Luck whose mean is not 0 biases the estimate by less than is told, whether noticed or not."""
    rng = np.random.default_rng(3)
    for shift in (0.0, 0.3, 1.0):
        wins, luck = lucky_games(rng, 400)
        honest = controlled_mean(wins, luck)
        biased = controlled_mean(wins, luck + np.array([shift, 0.0]))
        off = abs(biased.estimate.value - honest.estimate.value)
        assert off <= biased.possible_bias
        assert biased.valid == (shift == 0.0)


def test_few_wins_have_the_interval_of_wilson() -> None:
    """Without a win in 40 games, Student's interval of the remainder ends at 4 %."""
    wins, luck = np.zeros(40), lucky_games(np.random.default_rng(0), 40)[1]
    found = controlled_mean(wins, luck)
    assert found.fault == "few" and found.estimate == rate(0, 40)
    assert found.estimate.high > 0.08
    assert controlled_mean(1 - wins, luck).estimate == rate(40, 40)


@pytest.mark.parametrize("games", [100, 200])
@pytest.mark.parametrize("chance", [0.03, 0.12, 0.95])
def test_rare_results_are_covered(chance: float, games: int) -> None:
    """Wins by luck and skill, both normal: luck above a limit is a win."""
    rng, runs = np.random.default_rng(1), 200
    limit = np.quantile(rng.standard_normal(10**6), 1 - chance)
    covered = 0
    for _ in range(runs):
        luck = rng.standard_normal((games, 2)) / math.sqrt(2)
        score = 0.6 * (luck[:, 0] - luck[:, 1]) + 0.8 * rng.standard_normal(games)
        estimate = controlled_mean(score > limit, luck).estimate
        covered += estimate.low <= chance <= estimate.high
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert covered / runs >= 0.92  # 0.95 minus two standard errors


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.4, 0.6, 1.0])
def test_luck_whose_mean_is_not_0_is_covered(shift: float) -> None:
    """A player like an oracle, whose questions gain more than expected. Mean luck below is 0."""
    rng, runs, covered = np.random.default_rng(2), 300, 0
    for _ in range(runs):
        wins, luck = lucky_games(rng, 100)
        estimate = controlled_mean(wins, luck + np.array([shift, 0.0])).estimate
        covered += estimate.low <= 0.4 <= estimate.high
    assert covered / runs >= 0.92
