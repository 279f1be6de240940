"""The loss of batches of the trajectory API: where the stock trainer was wrong, and what stays."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trajectory_servers import group  # noqa: E402

from trainers.atropos.loss import (  # noqa: E402
    ALONE,
    NO_ADVANTAGE,
    NO_LOGPROBS,
    STALE,
    TrainingRow,
    batch_loss,
    training_batch,
)
from trainers.atropos.wire import ScoredData  # noqa: E402


def scored(**changes: Any) -> ScoredData:
    return ScoredData.model_validate(group(9, **changes))


def row(advantages: list[float], logprobs: list[float] | None = None) -> TrainingRow:
    old = [-1.0] * len(advantages) if logprobs is None else logprobs
    return TrainingRow([0] * (len(old) + 1), [*range(1, len(old) + 1)], old, advantages, 1.0)


def gradient(ratio: float, advantage: float, kl_coef: float = 0.0) -> float:
    """The derivative of the loss by log p_new of one token with this ratio."""
    new = torch.tensor([math.log(ratio) - 1.0], requires_grad=True)
    batch_loss(new, [row([advantage])], 0.2, kl_coef).backward()  # type: ignore[no-untyped-call]
    assert new.grad is not None
    return float(new.grad)


@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.5, -2.0])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5])
def test_the_clip_stops_only_what_went_far_enough(ratio: float, advantage: float) -> None:
    # A good token above 1 + e, or a bad one below 1 - e, has moved enough. The stock trainer
    # stopped the bad one that had become more probable, and pushed the suppressed one further.
    is_done = (advantage > 0 and ratio > 1.2) or (advantage < 0 and ratio < 0.8)
    expected = 0.0 if is_done else -advantage * ratio
    assert gradient(ratio, advantage) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5])
def test_the_kl_term_pulls_towards_the_sampler(ratio: float) -> None:
    # d/d(log p_new) of exp(-d) + d - 1 is 1 - exp(-d) = 1 - 1/r.
    pull = gradient(ratio, 1.0, kl_coef=0.5) - gradient(ratio, 1.0)
    assert pull == pytest.approx(0.5 * (1 - 1 / ratio), abs=1e-6)
    assert math.copysign(1, pull) == math.copysign(1, ratio - 1) or ratio == 1


def test_each_row_weighs_the_same() -> None:
    rows = [row([1.0]), row([1.0] * 4)]
    new = torch.full((5,), -1.0, requires_grad=True)
    batch_loss(new, rows).backward()  # type: ignore[no-untyped-call]
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([-0.5] + [-0.125] * 4)


def test_advantages_of_a_group() -> None:
    batch = training_batch([scored(rows=4)])
    assert [one.advantages for one in batch.rows] == [
        [pytest.approx((score - 1.5) / math.sqrt(1.25))] for score in range(4)
    ]
    first = batch.rows[0]
    assert (first.ids, first.positions, first.logprobs) == ([9, 1, 2], [2], [-0.5])
    assert first.temperature == 1.0 and not batch.left_out


def test_advantages_by_token_are_honoured() -> None:
    masks = [[-100, 1, 2], [-100, 1, 3]]
    logprobs = [[1.0, -0.1, -0.2], [1.0, -0.3, -0.4]]
    given = [[9.0, 0.25, -0.5], [9.0, 0.0, 0.0]]
    batch = training_batch([scored(masks=masks, inference_logprobs=logprobs, advantages=given)])
    (only,) = batch.rows
    assert only.advantages == [0.25, -0.5] and only.logprobs == [-0.1, -0.2]
    assert batch.left_out == {NO_ADVANTAGE: 1}
    # They make a group of one row useful.
    alone = scored(rows=1, advantages=[[0.0, 0.0, 2.0]])
    assert training_batch([alone]).rows[0].advantages == [2.0]


def test_what_is_left_out() -> None:
    zero = [{"set_advantage_to_zero": True}, {}]
    groups = [
        scored(inference_logprobs=None),
        scored(rows=1),
        scored(scores=[1.0, 1.0]),
        scored(overrides=zero),
        scored(group_overrides={"arena": {"policy_version": 1}}),
        scored(group_overrides=None),
    ]
    batch = training_batch(groups, version=4, max_staleness=2)
    assert batch.left_out == {NO_LOGPROBS: 2, ALONE: 1, NO_ADVANTAGE: 3, STALE: 2}
    assert len(batch.rows) == 3
    assert training_batch(groups[4:5]).left_out == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 1.0),
        ({"generation_params": {"temperature": 0.7}}, 0.7),
        ({"group_overrides": {"temperature": 0.6}}, 0.6),
        (
            {
                "overrides": [{"temperature": 0.5}, {"temperature": 0.5}],
                "generation_params": {"temperature": 0.7},
            },
            0.5,
        ),
        ({"generation_params": {"temperature": 0}}, 1.0),
    ],
)
def test_the_temperature_of_sampling(changes: dict[str, Any], expected: float) -> None:
    assert {one.temperature for one in training_batch([scored(**changes)]).rows} == {expected}
