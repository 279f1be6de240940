"""Luck taken out of results by a regression that never sees the game that it corrects."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from arena.evaluation.statistics import rate
from arena.evaluation.statistics.confidence_sequence import (
    FEWEST,
    MIN_GAMES,
    ControlledMean,
    controlled_mean,
)

Floats = NDArray[np.float64]


def lucky_games(rng: np.random.Generator, games: int) -> tuple[Floats, Floats]:
    """Wins that depend on luck of mean 0; exactly 40 % of them on average."""
    luck: Floats = rng.uniform(-2, 2, (games, 2))
    chance = 0.4 + 0.15 * luck[:, 0] - 0.08 * luck[:, 1]
    return np.asarray(rng.random(games) < chance, np.float64), luck


def controlled(y: Floats, luck: Floats) -> ControlledMean:
    found = controlled_mean(y, luck, (0, 1))
    assert found
    return found


def test_taking_luck_off_is_unbiased_and_covers() -> None:
    rng = np.random.default_rng(0)
    games = [lucky_games(rng, 60) for _ in range(200)]
    found = [controlled(*each) for each in games]
    means = np.array([each.estimate.value for each in found])
    error = means.std() / math.sqrt(len(means))
    assert means.mean() == pytest.approx(0.4, abs=3 * error)
    covered = np.mean([each.estimate.low <= 0.4 <= each.estimate.high for each in found])
    assert covered >= 0.92
    plain = np.array([wins.mean() for wins, _ in games])
    assert plain.var() / means.var() > 1.05
    assert np.mean([each.variance_ratio for each in found]) == pytest.approx(
        plain.var() / means.var(), rel=0.1
    )


def test_useless_luck_costs_little_and_is_no_bias() -> None:
    rng = np.random.default_rng(1)
    found = [controlled(lucky_games(rng, 60)[0], lucky_games(rng, 60)[1]) for _ in range(200)]
    means = np.array([each.estimate.value for each in found])
    assert means.mean() == pytest.approx(0.4, abs=3 * means.std() / math.sqrt(len(means)))
    assert np.mean([each.variance_ratio for each in found]) > 0.9


def test_a_coefficient_does_not_know_its_own_half() -> None:
    """A result moves the mean one to one, except by the coefficients of the other half."""
    wins, luck = lucky_games(np.random.default_rng(0), 50)
    scores = 3 * wins + 2
    luck[::2] = 0.0  # Games at even places have no luck, so no coefficient is applied to them.
    before = controlled_mean(scores, luck)
    changed = scores.copy()
    changed[49] += 100.0  # An odd place: it is in the regression for even places only.
    after = controlled_mean(changed, luck)
    assert before and after
    assert 50 * (after.estimate.value - before.estimate.value) == pytest.approx(100)


def test_the_coefficients_are_learnt() -> None:
    wins, luck = lucky_games(np.random.default_rng(0), 4000)
    both = np.column_stack([np.ones(4000), luck])
    rest = wins - both @ np.linalg.lstsq(both, wins, rcond=None)[0]
    assert controlled(wins, luck).variance_ratio == pytest.approx(wins.var() / rest.var(), rel=0.01)
    assert controlled(wins, 1e-3 * luck).variance_ratio == pytest.approx(
        controlled(wins, luck).variance_ratio
    )


def test_a_control_that_is_always_0_changes_nothing() -> None:
    wins, luck = lucky_games(np.random.default_rng(0), 100)
    luck[:, 0] = 0.0
    one, two = controlled(wins, luck[:, 1:]), controlled(wins, luck)
    assert two.estimate.value == pytest.approx(one.estimate.value)
    assert two.variance_ratio == pytest.approx(one.variance_ratio)
    assert controlled(wins, np.zeros((100, 2))).variance_ratio == 1


def test_few_results_of_another_kind_are_not_controlled() -> None:
    """Without a win in 40 games, Student's interval of the remainder would end at 4 %."""
    wins, luck = np.zeros(40), lucky_games(np.random.default_rng(0), 40)[1]
    wins[: FEWEST - 1] = 1
    assert controlled_mean(wins, luck) is None
    assert controlled_mean(1 - wins, luck) is None
    wins[FEWEST - 1] = 1
    assert controlled_mean(wins, luck)
    for games in (0, 1, 2, MIN_GAMES - 1):
        assert controlled_mean(*lucky_games(np.random.default_rng(0), games)) is None


@pytest.mark.parametrize("games", [100])
@pytest.mark.parametrize("chance", [0.12, 0.95])
def test_rare_results_are_covered(chance: float, games: int) -> None:
    """Wins by luck and skill, both normal: luck above a limit is a win."""
    rng, runs, covered = np.random.default_rng(1), 100, 0
    limit = np.quantile(rng.standard_normal(10**6), 1 - chance)
    for _ in range(runs):
        luck = rng.standard_normal((games, 2)) / math.sqrt(2)
        wins = 0.6 * (luck[:, 0] - luck[:, 1]) + 0.8 * rng.standard_normal(games) > limit
        found = controlled_mean(wins, luck, (0, 1))
        # Without an adjusted interval the report has that of the plain rate.
        estimate = found.estimate if found else rate(int(wins.sum()), games)
        covered += estimate.low <= chance <= estimate.high
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert covered / runs >= 0.90  # 0.95 minus two standard errors.
