"""Credit: which groups of a step are trained on, advantages, and rewards of single decisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from arena.core.seeds import stream
from arena.episodes.measurement import SeatEpisode
from trainers.rewards.scoring import Rewards
from trainers.rewards.terms import information_gains
from trainers.runs.records import GroupCounts
from trainers.trajectory import TrajectoryGroup


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


def select_groups(groups: Sequence[TrajectoryGroup], complete: int) -> SelectedGroups:
    """Select the complete groups whose rewards differ; `complete` is the size of such a group.

    A mean over the games that did not fail would be biased, so incomplete groups are dropped. With
    equal rewards all advantages are 0.
    """
    whole = complete_groups(groups, complete)
    # Compared exactly: one reward that differs, by however little, gives advantages other than 0.
    varied = [group for group in whole if len({t.reward for t in group.trajectories}) > 1]
    counts = GroupCounts(
        trained=len(varied),
        incomplete=len(groups) - len(whole),
        no_variance=len(whole) - len(varied),
    )
    return SelectedGroups(varied, counts)


def shuffle_rewards(
    groups: Sequence[TrajectoryGroup], seed: int, step: int
) -> list[TrajectoryGroup]:
    """Permute the rewards within each group at random: a control that must not learn."""
    shuffled = []
    for place, group in enumerate(groups):
        rewards = [trajectory.reward for trajectory in group.trajectories]
        # By step and place: a step that is repeated after a crash gets the same permutations.
        stream(seed, f"shuffle {step}/{place}").shuffle(rewards)
        pairs = zip(group.trajectories, rewards, strict=True)
        shuffled.append(group.with_trajectories([one.with_reward(reward) for one, reward in pairs]))
    return shuffled


def credit_games(groups: Sequence[TrajectoryGroup], scale: bool) -> list[TrajectoryGroup]:
    """Give each turn the advantage of its game, relative to the other games of the group.

    GRPO with outcome supervision (Shao et al. 2024, arXiv:2402.03300); see `group_advantages`.
    """
    credited = []
    for group in groups:
        advantages = group_advantages([one.reward for one in group.trajectories], scale)
        pairs = zip(group.trajectories, advantages, strict=True)
        credited.append(group.with_trajectories([one.with_advantage(a) for one, a in pairs]))
    return credited


def group_advantages(rewards: Sequence[float], scale: bool) -> list[float]:
    """Return A_i = R_i - mean(R), divided by std(R) + 1e-6 if scaled, for each game.

    As ART computes it: the standard deviation is the population's.
    """
    if not rewards:
        return []
    # The group's mean is the baseline: its games share the deal, so luck of the deal cancels.
    mean = sum(rewards) / len(rewards)
    deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    # 1e-6 as in ART; equal rewards give advantages of 0, not a division by 0.
    # The unit of A is standard deviations of the group, or without `scale` that of the reward.
    divisor = deviation + 1e-6 if scale else 1.0
    return [(reward - mean) / divisor for reward in rewards]


def turn_rewards(
    rewards: Rewards, seat_episode: SeatEpisode, plies: Sequence[int]
) -> dict[int, float]:
    """Return the reward of each of the seat's decisions at `plies`, by ply.

    The term `information` is exact at every moment, so a decision earns its weight times the gain
    between this decision and the next of `plies`. All other terms belong to the whole game, and
    the last decision earns them. Thus with g the gain before the first decision, which is none of
    the seat's doing,

        sum of the rewards = reward of the game - weight of `information` * g.

    Raises:
        ArenaError: a term failed.
    """
    if not plies:
        return {}
    ordered = sorted(plies)
    breakdown = rewards.score(seat_episode)
    weight = rewards.weights.get("information", 0.0)
    if not weight:
        return dict.fromkeys(ordered, 0.0) | {ordered[-1]: breakdown.reward}
    _, *gains = information_gains(seat_episode, ordered)
    earned = {ply: weight * gain for ply, gain in zip(ordered, gains, strict=True)}
    # What remains of the reward: the terms of the whole game.
    earned[ordered[-1]] += breakdown.reward - weight * breakdown.terms["information"]
    return earned
