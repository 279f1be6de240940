"""What a batch teaches: token sequences with advantages, and the groups that are left out.

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import fmean, pstdev

from pydantic import JsonValue

from trainers.atropos.client import MASKED, ScoredData
from trainers.trajectory import TokenSequence

DEFAULT_TEMPERATURE = 1.0


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of a row that the model can be trained on."""

    vocabulary: int
    context: int
    """Tokens of the longest row."""


@dataclass(slots=True)
class TrainingBatch:
    """The sequences of a batch that have a gradient, and what was left out."""

    sequences: list[TokenSequence] = field(default_factory=list)
    trained: int = 0
    """Groups with at least one sequence, whose `group` is their number from 0."""
    equal: int = 0
    """Groups in which no row has an advantage."""
    stale: list[ScoredData] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Reason against each group that cannot be trained."""
    ages: list[int] = field(default_factory=list)
    """Steps since the oldest weights that played, for each group that reports them."""


def training_batch(
    groups: Sequence[ScoredData], limits: ModelLimits, version: int, max_staleness: int
) -> TrainingBatch:
    """Return what these groups teach.

    Args:
        groups: Groups after the checks of `ScoredData`.
        limits: Of the model.
        version: Number of steps of the weights that are about to be updated.
        max_staleness: Groups that older weights than `version` - `max_staleness` have played are
            left out; a group that names no version stays.
    """
    batch, indices = TrainingBatch(), count()
    for group in groups:
        if reason := reason_against(group, limits):
            batch.refused.append(reason)
            continue
        played = policy_version(group)
        if played is not None:
            # An environment may count batches that this trainer has not yet finished.
            batch.ages.append(max(0, version - played))
            if version - played > max_staleness:
                batch.stale.append(group)
                continue
        sequences = list(_sequences(group, batch.trained, indices))
        if sequences:
            batch.trained += 1
            batch.sequences += sequences
        else:
            batch.equal += 1
    return batch


def reason_against(group: ScoredData, limits: ModelLimits) -> str:
    """Return why a group cannot be trained; empty if it can."""
    if group.inference_logprobs is None:
        return "no inference_logprobs: without p_old there is no importance ratio"
    if group.size == 1 and group.advantages is None:
        return "a group of one row without advantages: its score has no baseline"
    for row, tokens in enumerate(group.tokens):
        largest = max(tokens)
        if largest >= limits.vocabulary:
            return (
                f"tokens, row {row}: id {largest} is outside of the vocabulary of "
                f"{limits.vocabulary} tokens: the environment's server has another tokenizer or "
                "checkpoint than --model-name"
            )
        if len(tokens) > limits.context:
            return f"tokens, row {row}: {len(tokens)} tokens, but the limit is {limits.context}"
    return ""


def facts_of(group: ScoredData) -> Mapping[str, JsonValue]:
    """Return what an environment of arena reports about its games; empty for another one."""
    facts = (group.group_overrides or {}).get("arena")
    return facts if isinstance(facts, dict) else {}


def policy_version(group: ScoredData) -> int | None:
    """Return the step of the oldest weights that played; None if it is not reported."""
    played = facts_of(group).get("policy_version")
    return played if isinstance(played, int) else None


def _sequences(group: ScoredData, number: int, indices: Iterator[int]) -> Iterator[TokenSequence]:
    """Yield the rows of a group that have an advantage."""
    assert group.inference_logprobs is not None, "checked before"
    for row, (masks, logprobs) in enumerate(
        zip(group.masks, group.inference_logprobs, strict=True)
    ):
        # The first token has no predecessor that predicts it.
        positions = [place for place in range(1, len(masks)) if masks[place] != MASKED]
        advantages = _advantages(group, row, positions)
        if not any(advantages):
            continue
        index = next(indices)
        yield TokenSequence(
            index,
            number,
            # What follows the last trained token predicts nothing.
            group.tokens[row][: positions[-1] + 1],
            positions,
            [logprobs[place] for place in positions],
            weight=1 / len(positions),
            advantages=advantages,
            temperature=_temperature(group, row),
        )


def _advantages(group: ScoredData, row: int, positions: Sequence[int]) -> list[float]:
    # A row that only fills up its group, see `group_player`.
    if _override(group, row, "set_advantage_to_zero"):
        return [0.0] * len(positions)
    if group.advantages is not None:
        return [group.advantages[row][place] for place in positions]
    # Over all rows, padding included: its scores are those of the group's games.
    deviation = pstdev(group.scores)
    own = (group.scores[row] - fmean(group.scores)) / deviation if deviation > 0 else 0.0
    return [own] * len(positions)


def _override(group: ScoredData, row: int, name: str) -> JsonValue:
    return group.overrides[row].get(name) if group.overrides else None


def _temperature(group: ScoredData, row: int) -> float:
    """Return the temperature of sampling; the row's own before that of the group."""
    sources = (group.generation_params or {}), (group.group_overrides or {})
    values = [_override(group, row, "temperature"), *(one.get("temperature") for one in sources)]
    given = [float(value) for value in values if isinstance(value, int | float)]
    # Greedy sampling reports the probabilities of temperature 1.
    return given[0] if given and given[0] > 0 else DEFAULT_TEMPERATURE
