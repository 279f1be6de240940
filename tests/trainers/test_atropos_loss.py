"""What a batch of the trajectory API teaches: where the stock trainer was wrong, and what stays."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from tiny_model import build_tiny_model  # noqa: E402
from trajectory_servers import group  # noqa: E402

from trainers.algorithms.batching import minibatches  # noqa: E402
from trainers.algorithms.learner import Learner  # noqa: E402
from trainers.algorithms.loss import policy_loss  # noqa: E402
from trainers.algorithms.network import score_tokens  # noqa: E402
from trainers.atropos.client import ScoredData  # noqa: E402
from trainers.atropos.trainer import (  # noqa: E402
    ModelLimits,
    TrainingBatch,
    training_batch,
)
from trainers.config.config import UpdateOptions  # noqa: E402
from trainers.trajectory import TokenSequence  # noqa: E402

LIMITS = ModelLimits(vocabulary=100, context=64)


def scored(**changes: Any) -> ScoredData:
    return ScoredData.model_validate(group(9, **changes))


def learned(groups: list[ScoredData], version: int = 3, staleness: int = 8) -> TrainingBatch:
    return training_batch(groups, LIMITS, version, staleness)


def row(advantages: list[float], index: int = 0) -> TokenSequence:
    """Tokens that were sampled with the log-probability -1."""
    count = len(advantages)
    positions = [*range(1, count + 1)]
    return TokenSequence(
        index, index, [7] * (count + 1), positions, [-1.0] * count,
        weight=1 / count, advantages=advantages,
    )  # fmt: skip


def loss(new: Any, rows: list[TokenSequence]) -> Any:
    """The loss of a batch as the learner computes it, for log p_new of all trained tokens."""
    [[batch]] = minibatches(rows, 1, 10**6, "0")
    options = UpdateOptions(loss_fn="ppo", epsilon=0.2)
    return policy_loss(new, batch.targets, options).loss / len(batch.targets)


def gradient(ratio: float, advantage: float) -> float:
    """The derivative of the loss by log p_new of one token with this ratio."""
    new = torch.tensor([math.log(ratio) - 1.0], requires_grad=True)
    loss(new, [row([advantage])]).backward()
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


def test_each_row_weighs_the_same() -> None:
    new = torch.full((5,), -1.0, requires_grad=True)
    loss(new, [row([1.0]), row([1.0] * 4, 1)]).backward()
    assert new.grad is not None
    weights = sorted(new.grad.tolist())
    assert weights == pytest.approx([-0.5] + [-0.125] * 4)


def test_advantages_of_a_group() -> None:
    batch = learned([scored(rows=4)])
    assert [one.advantages for one in batch.sequences] == [
        [pytest.approx((score - 1.5) / math.sqrt(1.25))] for score in range(4)
    ]
    first = batch.sequences[0]
    assert (first.ids, first.sampled_positions, first.sampled_logprobs) == ([9, 1, 2], [2], [-0.5])
    assert first.temperature == 1.0 and not batch.refused and batch.ages == [0]


def test_advantages_by_token_are_honoured() -> None:
    masks = [[-100, 1, 2], [-100, 1, 3]]
    logprobs = [[1.0, -0.1, -0.2], [1.0, -0.3, -0.4]]
    given = [[9.0, 0.25, -0.5], [9.0, 0.0, 0.0]]
    batch = learned([scored(masks=masks, inference_logprobs=logprobs, advantages=given)])
    (only,) = batch.sequences
    assert only.advantages == [0.25, -0.5] and only.sampled_logprobs == [-0.1, -0.2]
    [[micro]] = minibatches([only], 1, 10**6, "0")
    assert micro.targets.advantages.tolist() == [0.25, -0.5]
    # They make a group of one row useful.
    alone = scored(rows=1, advantages=[[0.0, 0.0, 2.0]])
    assert learned([alone]).sequences[0].advantages == [2.0]


def test_what_is_left_out() -> None:
    zero = [{"set_advantage_to_zero": True}, {}]
    groups = [
        scored(inference_logprobs=None),
        scored(rows=1),
        scored(tokens=[[9, 1, 100], [9, 1, 3]], masks=[[-100, -100, 100], [-100, -100, 3]]),
        scored(scores=[1.0, 1.0]),
        scored(overrides=zero),
        scored(group_overrides={"arena": {"policy_version": 1}}),
        scored(group_overrides=None),
    ]
    batch = learned(groups, version=4, staleness=2)
    reasons = list(batch.refused)
    assert [reason.partition(":")[0] for reason in reasons] == [
        "no inference_logprobs",
        "a group of one row without advantages",
        "tokens, row 0",
    ]
    assert "id 100 is outside of the vocabulary of 100 tokens" in reasons[2]
    assert batch.equal == 1 and batch.stale == [groups[5]] and batch.ages == [1, 1, 3]
    assert [one.group for one in batch.sequences] == [0, 1, 1]
    short = training_batch([scored()], ModelLimits(100, 2), 0, 8)
    assert short.refused[0] == "tokens, row 0: 3 tokens, but the limit is 2"


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
    assert {one.temperature for one in learned([scored(**changes)]).sequences} == {expected}


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Learner:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return Learner(build_tiny_model(folder, layers=1, width=32, heads=2, head_dim=16, inner=64))


def test_log_probabilities_are_those_of_the_temperature(learner: Learner) -> None:
    rows = [row([1.0] * 3), row([-1.0] * 2, 1)]
    [[plain]] = minibatches(rows, 1, 10**6, "0")
    rows[0].temperature = 0.5
    [[mixed]] = minibatches(rows, 1, 10**6, "0")
    assert plain.packed.temperatures is None and mixed.packed.temperatures is not None
    untied = learner.architecture.model_copy(update={"tied": False})
    weights = learner.merged()
    # Times 20, since a new model is nearly uniform.
    head = 20 * weights["model.embed_tokens.weight"]
    weights |= {"lm_head.weight": head}
    found, again = (
        score_tokens(weights, untied, mixed.packed, recompute).logprobs
        for recompute in (False, True)
    )
    one = score_tokens(weights, untied, plain.packed).logprobs
    # Half the temperature is twice the logits.
    half = score_tokens(weights | {"lm_head.weight": 2 * head}, untied, plain.packed).logprobs
    own = mixed.targets.answer_ids < 3  # The tokens of the first row.
    assert torch.allclose(found, torch.where(own, half, one), atol=1e-5)
    assert not torch.allclose(half, one, atol=0.1) and torch.equal(found, again)


def test_small_steps_change_every_weight_of_a_bfloat16_checkpoint(tmp_path: Path) -> None:
    # The stock trainer held the weights in bfloat16, where 86 % of steps of 1e-5 round to nothing.
    from safetensors.torch import load_file, save_file

    folder = build_tiny_model(tmp_path / "tiny", layers=1, width=32, heads=2, head_dim=16, inner=64)
    path = folder / "model.safetensors"
    save_file({n: t.bfloat16() for n, t in load_file(path).items()}, path, {"format": "pt"})
    learner = Learner(folder)
    layer = "model.layers.0.mlp.down_proj.weight"
    before = learner.merged()[layer].clone()
    options = UpdateOptions(loss_fn="ppo", learning_rate=1e-6, minibatches=1, threads=1)
    learner.update([row([1.0] * 3), row([-1.0] * 2, 1)], options)
    changed = learner.merged()[layer] != before
    assert changed.float().mean() > 0.99
