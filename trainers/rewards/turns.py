"""Rewards of single decisions, for trainers that credit each reply of a model."""

from __future__ import annotations

from collections.abc import Sequence

from arena.episodes.measurement import SeatEpisode
from trainers.rewards.information import information_gains
from trainers.rewards.scoring import Rewards


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
