"""What a trainer learns from a batch: the advantages of its rows, and the clipped loss.

For row i of a group with the scores s_1 … s_G:

    A_i = (s_i - mean(s)) / std(s)              std is the population's

or the advantages by token that the environment sent. With r = p_new / p_old and d = log r, where
p_old is the probability that the token was sampled with, the loss is the mean over rows of the mean
over a row's trained tokens of

    -min(r A, clip(r, 1 - e, 1 + e) A) + c (exp(-d) + d - 1)

The first term is PPO's (Schulman et al., arXiv:1707.06347), with the right sign of the clip for
negative advantages. The second one, with the coefficient c, is the term that Atropos' trainer once
had: it pulls towards the policy that sampled, not towards a frozen reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

import torch
from pydantic import JsonValue
from torch import Tensor

from trainers.algorithms.loss import LossOptions, TokenTargets, policy_loss
from trainers.atropos.wire import MASKED, ScoredData

NO_LOGPROBS, STALE, ALONE = "no log-probabilities", "too old", "a group of one row"
"""Reasons to leave out a group, as they are reported."""
NO_ADVANTAGE = "no advantage"
"""Reason to leave out a row."""


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row with what its trained tokens learn."""

    ids: list[int]
    positions: list[int]
    """Of the trained tokens in `ids`, ascending; never 0."""
    logprobs: list[float]
    """Of the trained tokens as they were sampled, in nats."""
    advantages: list[float]
    """Of the trained tokens."""
    temperature: float
    """Logits are divided by it before log p_new is taken, as the sampler did."""


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """The rows of a batch with a gradient, and what was left out."""

    rows: list[TrainingRow]
    left_out: Counter[str]
    """Rows by the reason."""


def training_batch(
    groups: Sequence[ScoredData], version: int | None = None, max_staleness: int | None = None
) -> TrainingBatch:
    """Return the rows of a batch that have a gradient.

    Args:
        groups: Groups after the checks of `ScoredData`.
        version: Version of the weights that are about to be updated.
        max_staleness: Groups that older weights than `version` - `max_staleness` have played are
            left out; a group that names no version stays. None: all stay.
    """
    batch = TrainingBatch([], Counter())
    for group in groups:
        if reason := _reason_against(group, version, max_staleness):
            batch.left_out[reason] += group.size
            continue
        for row in range(group.size):
            found = _training_row(group, row)
            if any(found.advantages):
                batch.rows.append(found)
            else:
                batch.left_out[NO_ADVANTAGE] += 1
    return batch


def _reason_against(group: ScoredData, version: int | None, max_staleness: int | None) -> str:
    if group.inference_logprobs is None:
        return NO_LOGPROBS  # Without p_old there is no ratio.
    if group.size == 1 and group.advantages is None:
        return ALONE  # Its score has no baseline.
    facts = (group.group_overrides or {}).get("arena")
    played = facts.get("policy_version") if isinstance(facts, dict) else None
    if None not in (version, max_staleness) and isinstance(played, int):
        assert version is not None and max_staleness is not None
        return STALE if version - played > max_staleness else ""
    return ""


def _training_row(group: ScoredData, row: int) -> TrainingRow:
    assert group.inference_logprobs is not None, "checked before"
    masks = group.masks[row]
    # The first token has no predecessor that predicts it.
    positions = [place for place in range(1, len(masks)) if masks[place] != MASKED]
    if group.advantages is not None:
        advantages = [group.advantages[row][place] for place in positions]
    else:
        advantages = [_advantage(group.scores, row)] * len(positions)
    # A row that only fills up its group, see `rows`.
    if _override(group, row, "set_advantage_to_zero"):
        advantages = [0.0] * len(positions)
    return TrainingRow(
        group.tokens[row],
        positions,
        [group.inference_logprobs[row][place] for place in positions],
        advantages,
        _temperature(group, row),
    )


def _advantage(scores: Sequence[float], row: int) -> float:
    deviation = pstdev(scores)
    return (scores[row] - fmean(scores)) / deviation if deviation > 0 else 0.0


def _override(group: ScoredData, row: int, name: str) -> JsonValue:
    return group.overrides[row].get(name) if group.overrides else None


def _temperature(group: ScoredData, row: int) -> float:
    """Return the temperature of sampling; the row's own before that of the group."""
    sources = (group.generation_params or {}), (group.group_overrides or {})
    values = [_override(group, row, "temperature"), *(one.get("temperature") for one in sources)]
    given = [float(value) for value in values if isinstance(value, int | float)]
    # Greedy sampling reports the probabilities of temperature 1.
    return given[0] if given and given[0] > 0 else 1.0


def batch_loss(
    new_logprobs: Tensor, rows: Sequence[TrainingRow], clip_eps: float = 0.2, kl_coef: float = 0.0
) -> Tensor:
    """Return the loss of a batch, a scalar with the gradient of `new_logprobs`.

    Args:
        new_logprobs: log p_new in nats of the trained tokens of all rows, in their order, after
            the division of the logits by each row's temperature; float32, shape [trained].
        rows: The rows of the batch.
        clip_eps: e.
        kl_coef: c.
    """
    targets = _targets(rows).to(new_logprobs.device)
    loss = policy_loss(new_logprobs, targets, LossOptions(loss_fn="ppo", epsilon=clip_eps)).loss
    if kl_coef:
        gaps = new_logprobs - targets.sampled_logprobs
        # exp(-d) + d - 1 >= 0, with its minimum at d = 0.
        loss = loss + kl_coef * (targets.weights * (torch.exp(-gaps) + gaps - 1)).sum()
    return loss


def _targets(rows: Sequence[TrainingRow]) -> TokenTargets:
    lengths = torch.tensor([len(row.positions) for row in rows])
    # The mean over rows of the mean over tokens: each token weighs 1 / (rows * tokens of its row).
    weights = 1.0 / (len(rows) * lengths.float())
    logprobs = torch.tensor([value for row in rows for value in row.logprobs])
    return TokenTargets(
        logprobs,
        torch.tensor([value for row in rows for value in row.advantages]),
        weights.repeat_interleave(lengths),
        torch.arange(len(rows)).repeat_interleave(lengths),
        logprobs,
    )
