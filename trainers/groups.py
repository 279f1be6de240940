"""What becomes of a step's groups before they are trained on: judged, shuffled, chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from arena.core.seeds import stream
from trainers.hosts.art import TrajectoryGroup
from trainers.rewards import GroupScorer, score_group
from trainers.runs.records import Groups


@dataclass(frozen=True, slots=True)
class Chosen:
    """What of a step is trained on, and what became of the rest."""

    trained: list[TrajectoryGroup]
    counted: Groups

    def __str__(self) -> str:
        return (
            f"{self.counted.no_variance} groups have equal rewards, {self.counted.incomplete} "
            "could not be played"
        )


def whole(groups: Sequence[TrajectoryGroup], games: int) -> list[TrajectoryGroup]:
    """The groups of which every game was played."""
    return [group for group in groups if len(group.trajectories) == games]


def choose(groups: Sequence[TrajectoryGroup], games: int) -> Chosen:
    """Whole groups whose rewards differ; a group of fewer than `games` trajectories is dropped."""
    complete = whole(groups, games)
    varied = [group for group in complete if len({t.reward for t in group.trajectories}) > 1]
    counted = Groups(
        trained=len(varied),
        incomplete=len(groups) - len(complete),
        no_variance=len(complete) - len(varied),
    )
    return Chosen(varied, counted)


async def judge(scorer: GroupScorer, groups: Sequence[TrajectoryGroup], name: str) -> None:
    """Let the judge of this name see all groups at once; it changes their rewards."""
    await asyncio.gather(*(score_group(scorer, group, name) for group in groups))


def shuffle_rewards(groups: Sequence[TrajectoryGroup], seed: int, step: int) -> None:
    """Deal rewards out at random within each group: a control, which must not learn."""
    for place, group in enumerate(groups):
        rewards = [trajectory.reward for trajectory in group]
        stream(seed, f"shuffle {step}/{place}").shuffle(rewards)
        for trajectory, reward in zip(group, rewards, strict=True):
            trajectory.reward = reward
