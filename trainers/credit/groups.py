"""The groups of a step: which of them are trained on, and the control with shuffled rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from arena.core.seeds import stream
from trainers.runs.records import GroupCounts
from trainers.trajectory import Trajectory, TrajectoryGroup, Turn


@dataclass(frozen=True, slots=True)
class SelectedGroups:
    """The groups of a step that are trained on, and the number of all groups by result."""

    trained: list[TrajectoryGroup]
    counts: GroupCounts

    def __str__(self) -> str:
        return (
            f"{self.counts.no_variance} groups have no advantage, {self.counts.incomplete} have "
            "a failed game"
        )


def complete_groups(groups: Sequence[TrajectoryGroup], games: int) -> list[TrajectoryGroup]:
    """Return the groups in which no game failed."""
    return [group for group in groups if len(group.trajectories) == games]


def select_groups(
    groups: Sequence[TrajectoryGroup], credited: Sequence[TrajectoryGroup], penalised: bool = False
) -> SelectedGroups:
    """Select the groups that change the weights.

    `credited` are the groups in which no game failed, with advantages. With `penalised` a penalty
    has a gradient also where all advantages are 0.
    """
    trained = [
        group for group in credited if penalised or any(turn.advantage for turn in group.turns)
    ]
    counts = GroupCounts(
        trained=len(trained),
        incomplete=len(groups) - len(credited),
        no_variance=len(credited) - len(trained),
    )
    return SelectedGroups(trained, counts)


def shuffle_rewards(
    groups: Sequence[TrajectoryGroup], seed: int, step: int
) -> list[TrajectoryGroup]:
    """Permute rewards and all facts that credit reads of turns in each group.

    A control that must not learn.
    """
    shuffled = []
    for place, group in enumerate(groups):
        rewards = [trajectory.reward for trajectory in group.trajectories]
        turns = group.turns
        # By step and place: a step that is repeated after a crash gets the same permutations.
        rng = stream(seed, f"shuffle {step}/{place}")
        rng.shuffle(rewards)
        rng.shuffle(turns)
        drawn = iter(turns)

        def judged(one: Trajectory, drawn: Iterator[Turn] = drawn) -> Trajectory:
            pairs = ((turn, next(drawn)) for turn in one.turns)
            turns = (
                replace(
                    turn,
                    is_legal=other.is_legal,
                    judgements=other.judgements,
                    position=other.position,
                )
                for turn, other in pairs
            )
            return replace(one, turns=tuple(turns))

        pairs = zip(group.trajectories, rewards, strict=True)
        shuffled.append(
            group.with_trajectories([judged(one).with_reward(reward) for one, reward in pairs])
        )
    return shuffled
