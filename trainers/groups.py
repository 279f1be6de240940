"""Processing of a step's groups before the update: group scores, shuffling, selection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from arena.core.seeds import stream
from trainers.hosts.art import TrajectoryGroup
from trainers.rewards import GroupScorer, score_group
from trainers.runs.records import GroupCounts


@dataclass(frozen=True, slots=True)
class SelectedGroups:
    """The groups of a step that are trained on, and the number of all groups by result."""

    trained: list[TrajectoryGroup]
    counts: GroupCounts

    def __str__(self) -> str:
        return (
            f"{self.counts.no_variance} groups have equal rewards, {self.counts.incomplete} have "
            "a failed game"
        )


def complete_groups(groups: Sequence[TrajectoryGroup], games: int) -> list[TrajectoryGroup]:
    """Return the groups in which no game failed."""
    return [group for group in groups if len(group.trajectories) == games]


def select_groups(groups: Sequence[TrajectoryGroup], games: int) -> SelectedGroups:
    """Select the complete groups whose rewards differ; `games` is the size of a complete group.

    A mean over the games that did not fail would be biased, so incomplete groups are dropped. With
    equal rewards all advantages are 0.
    """
    complete = complete_groups(groups, games)
    # Compared exactly: one reward that differs, by however little, gives advantages other than 0.
    varied = [group for group in complete if len({t.reward for t in group.trajectories}) > 1]
    counts = GroupCounts(
        trained=len(varied),
        incomplete=len(groups) - len(complete),
        no_variance=len(complete) - len(varied),
    )
    return SelectedGroups(varied, counts)


async def score_groups(scorer: GroupScorer, groups: Sequence[TrajectoryGroup], name: str) -> None:
    """Let the group scorer `name` change the rewards of all groups concurrently."""
    await asyncio.gather(*(score_group(scorer, group, name) for group in groups))


def shuffle_rewards(groups: Sequence[TrajectoryGroup], seed: int, step: int) -> None:
    """Permute the rewards within each group at random: a control that must not learn."""
    for place, group in enumerate(groups):
        rewards = [trajectory.reward for trajectory in group]
        # By step and place: a step that is repeated after a crash gets the same permutations.
        stream(seed, f"shuffle {step}/{place}").shuffle(rewards)
        for trajectory, reward in zip(group, rewards, strict=True):
            trajectory.reward = reward
