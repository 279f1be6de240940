"""Confidence sequences: they hold at all times at once, whatever the order."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_capital import log_capital
from numpy.typing import NDArray

from arena.core.errors import UsageError
from arena.evaluation.records import Estimate
from arena.evaluation.statistics.confidence_sequence import ConfidenceSequence

Floats = NDArray[np.float64]


def ends(estimate: Estimate) -> list[float]:
    return [estimate.low, estimate.value, estimate.high]


def added(sequence: ConfidenceSequence, values: Iterable[float]) -> Floats:
    """Add the values and return the ends of the interval after each, (2, values)."""
    intervals = []
    for value in values:
        sequence.add(value)
        intervals.append(sequence.interval())
    return np.array([ends(each)[::2] for each in intervals]).T


def test_a_confidence_sequence_at_its_beginning_and_at_its_bounds() -> None:
    sequence = ConfidenceSequence(-1, 1)
    assert math.isnan(sequence.interval().value) and sequence.interval().n == 0
    assert ends(sequence.interval())[::2] == [-1, 1]
    lower, upper = added(sequence, [-1] * 30)
    assert set(lower) == {-1}
    assert all(np.diff(upper) < 0), "each loss narrows it"
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
    added(plain, sample)
    added(scaled, (min(low + width * value, low + width) for value in sample))
    found = plain.interval()
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.value == pytest.approx(statistics.mean(sample), abs=1e-6)
    expected = [low + width * end for end in ends(found)]
    assert ends(scaled.interval()) == pytest.approx(expected, abs=1e-4)


def test_the_order_of_games_does_not_matter() -> None:
    sample = [0.0, 1.0, 1.0, 0.3, 0.0, 1.0]
    first, second = ConfidenceSequence(0, 1), ConfidenceSequence(0, 1)
    added(first, sample)
    added(second, sample[::-1])
    assert ends(first.interval()) == pytest.approx(ends(second.interval()))


def test_the_ends_are_where_the_capital_reaches_20() -> None:
    sample = (np.random.default_rng(0).random(200) < 0.3) * 1.0
    lower, upper = added(ConfidenceSequence(0, 1), sample)
    for end in (lower[-1], upper[-1]):
        assert log_capital(sample, end, 0, 1)[-1] == pytest.approx(math.log(20), abs=1e-3)
    inside = (lower <= 0.3) & (upper >= 0.3)
    assert (inside == (log_capital(sample, 0.3, 0, 1) < math.log(20))).all()


def test_values_off_the_grid_only_widen_the_interval() -> None:
    sample = np.random.default_rng(0).random(200)
    sequence = ConfidenceSequence(0, 1)
    added(sequence, sample)
    found = sequence.interval()
    for end, inwards in ((found.low, 1e-3), (found.high, -1e-3)):
        assert log_capital(sample, end, 0, 1)[-1] >= math.log(20) - 1e-6
        assert log_capital(sample, end + inwards, 0, 1)[-1] < math.log(20), "yet hardly"


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
