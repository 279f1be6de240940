"""Rows of the trajectory API from trajectories: the ids that the server read and sampled.

A chat that only grows is one row. Where the server read a prompt that does not continue the ids so
far (a shortened chat, a template that rewrites an answer), the trajectory goes on in another row.
Row k of all trajectories is one group. A trajectory with fewer rows repeats its last one there,
with the override `set_advantage_to_zero`: a group always has the registered size, and its scores
are always those of all its games, so every row has the advantage of its game.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from arena.core.errors import StopPlaying
from trainers.algorithms.sequences import Answer, TokenSequence
from trainers.atropos.wire import MASKED, NOT_SAMPLED, ScoredData
from trainers.trajectory import Trajectory, TrajectoryGroup


@dataclass(frozen=True, slots=True)
class RowOptions:
    """Fields of all groups of an environment."""

    temperature: float
    """Of sampling; the log-probabilities are those of this temperature."""
    with_messages: bool = False
    """Send the chats as text too."""


class NothingSampled(ValueError):
    """A trajectory without a sampled token, for example of a seat that never had to decide."""


def scored_groups(
    group: TrajectoryGroup, facts: dict[str, JsonValue], options: RowOptions
) -> list[ScoredData]:
    """Return the groups of rows of a trajectory group, most often one.

    Args:
        group: Complete trajectories of one deal and seat, with rewards.
        facts: What the trainer may want to know, sent as `group_overrides["arena"]`.
        options: Fields of all groups.

    Raises:
        NothingSampled: A trajectory has no row.
        StopPlaying: The server does not report the ids of its tokens.
    """
    # By trajectory its rows; nearly always one.
    by_trajectory = [trajectory_rows(trajectory) for trajectory in group.trajectories]
    if not all(by_trajectory):
        raise NothingSampled("a trajectory has no sampled token")
    chats = [messages_of(trajectory) for trajectory in group.trajectories]
    return [
        ScoredData(
            tokens=[row.ids for row in rows],
            masks=[_masks(row) for row in rows],
            scores=[float(trajectory.reward) for trajectory in group.trajectories],
            inference_logprobs=[_logprobs(row) for row in rows],
            messages=chats if options.with_messages else None,
            generation_params={"temperature": options.temperature},
            overrides=[
                {"set_advantage_to_zero": True} if number >= len(own) else {}
                for own in by_trajectory
            ],
            group_overrides={"arena": {**facts, "part": number}},
        )
        for number in range(max(map(len, by_trajectory)))
        for rows in [[own[min(number, len(own) - 1)] for own in by_trajectory]]
    ]


def trajectory_rows(trajectory: Trajectory) -> list[TokenSequence]:
    """Return the rows of one trajectory, in the order of play. Raises StopPlaying."""
    rows: list[TokenSequence] = []
    for turn in trajectory.turns:
        if not turn.prompt_ids:
            raise StopPlaying(
                "the server does not report the ids of its prompts, so its games cannot be "
                "trained: use arena serve, or vLLM 0.11 or later, which know return_token_ids"
            )
        # Compared by ids: equal texts may have other tokens.
        if not rows or list(turn.prompt_ids[: len(rows[-1].ids)]) != rows[-1].ids:
            rows.append(TokenSequence(0, 0))
        # The advantage is the trainer's to compute, from the scores.
        rows[-1].add(Answer(turn.prompt_ids, turn.tokens))
    return rows


def messages_of(trajectory: Trajectory) -> list[dict[str, JsonValue]]:
    """Return the first chat of a trajectory, with the answers as sampled."""
    messages: list[dict[str, JsonValue]] = []
    for turn in (trajectory.chats() or [[]])[0]:
        messages += [{"role": one.role, "content": one.content} for one in turn.messages]
        messages.append({"role": "assistant", "content": turn.text})
    return messages


def _masks(row: TokenSequence) -> list[int]:
    # Position 0 is never sampled: a prompt precedes it.
    trained = set(row.sampled_positions)
    return [token if place in trained else MASKED for place, token in enumerate(row.ids)]


def _logprobs(row: TokenSequence) -> list[float]:
    logprobs = [NOT_SAMPLED] * len(row.ids)
    for place, logprob in zip(row.sampled_positions, row.sampled_logprobs, strict=True):
        # Rounding may bring a certain token slightly above 0.
        logprobs[place] = min(0.0, logprob)
    return logprobs


def longest_row(groups: Sequence[ScoredData]) -> int:
    """Return the number of tokens of the longest row."""
    return max((len(row) for group in groups for row in group.tokens), default=0)
