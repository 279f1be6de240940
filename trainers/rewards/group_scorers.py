"""Scorers of whole groups, which can compare all games of a deal with each other.

A scorer is an async function that takes a `TrajectoryGroup` and returns one with other rewards. It
may ask a model. A scorer of ART, such as RULER, is wrapped:

    # judges.py, in the working directory
    from functools import partial
    from art.rewards import ruler_score_group
    from trainers.hosts.art.convert import art_scorer

    ruler = art_scorer(partial(ruler_score_group, judge_model="openai/o4-mini"))

and then `arena train cluedo group_scorer judges:ruler`. RULER reads one history per game, so each
chat must only append messages; a chat that was rebuilt is an error. The reward from --reward is
kept as the metric `independent_reward`.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Protocol, cast

from arena.core.errors import ArenaError
from arena.plugins.loader import catalog
from trainers.rewards.scoring import RewardGuard, load_function
from trainers.trajectory import TrajectoryGroup


class GroupScorer(Protocol):
    """Replaces the rewards of a group and keeps the order of its trajectories."""

    def __call__(self, group: TrajectoryGroup, /) -> Awaitable[TrajectoryGroup | None]:
        """Return a copy of the group with other rewards; None means that scoring failed."""


def load_group_scorer(name: str) -> GroupScorer:
    """Return the scorer of group_scorer: `module:function`, or a name of the catalog.

    Raises UsageError if there is no such function or catalog entry.
    """
    if ":" in name:
        return cast("GroupScorer", load_function(name, "group_scorer"))
    return cast("GroupScorer", catalog().load("scorer", name))


async def score_groups(
    scorer: GroupScorer, groups: Sequence[TrajectoryGroup], name: str, guard: RewardGuard
) -> list[TrajectoryGroup]:
    """Return all groups with the rewards of the group scorer `name`, which runs concurrently.

    A group that cannot be scored loses its trajectories, and has the reason as its failure.
    """

    async def score_one(group: TrajectoryGroup) -> TrajectoryGroup:
        try:
            return await score_group(scorer, group, name)
        except ArenaError as error:
            return replace(group, trajectories=(), failures=(str(error),))

    scored = list(await asyncio.gather(*map(score_one, groups)))
    for group in scored:
        guard.count("".join(group.failures))
    return scored


async def score_group(
    scorer: GroupScorer, group: TrajectoryGroup, name: str = ""
) -> TrajectoryGroup:
    """Return the group with the rewards of the scorer.

    Each trajectory gets two metrics beside those that the scorer adds: `independent_reward`, the
    reward before, and `group_score`, the new reward. Raises ArenaError if the scorer, shown by its
    `name`, failed, or returned no group, a group of another size, or a reward that is not a finite
    number.
    """
    label = f"the group scorer {name}".rstrip()
    scored = await _call(scorer, group, label)
    if len(scored.trajectories) != len(group.trajectories):
        raise ArenaError(
            f"{label} received {len(group.trajectories)} trajectories and returned "
            f"{len(scored.trajectories)}; return one for each, in the same order"
        )
    # Rewards and metrics only: a scorer's copies may lack the tokens that training needs.
    judged = []
    for own, other in zip(group.trajectories, scored.trajectories, strict=True):
        # Typed as object: a user's function may set anything.
        reward: object = other.reward
        if not isinstance(reward, Real) or not math.isfinite(reward):
            raise ArenaError(f"{label} gave the reward {reward!r}, which is not a finite number")
        if not isinstance(other.metrics, Mapping):
            raise ArenaError(f"{label} gave the metrics {other.metrics!r}, which are no mapping")
        # After the scorer's metrics, so that these two names always have this meaning.
        both = {"independent_reward": own.reward, "group_score": float(reward)}
        metrics = {**own.metrics, **other.metrics, **both}
        judged.append(replace(own.with_reward(float(reward)), metrics=metrics))
    return group.with_trajectories(judged)


async def _call(scorer: GroupScorer, group: TrajectoryGroup, label: str) -> TrajectoryGroup:
    try:
        call = scorer(group)
        if not inspect.isawaitable(call):
            raise ArenaError(f"{label} is not an async function: write `async def`")
        scored = await call
    except ArenaError:
        raise
    except Exception as error:  # The edge of a plugin: a user's function may fail in any way.
        raise ArenaError(f"{label} failed: {error!r}") from error
    if scored is None:
        # RULER returns None after an exception that it swallowed by default.
        raise ArenaError(f"{label} returned None; RULER shows why with swallow_exceptions=False")
    if not isinstance(scored, TrajectoryGroup):
        raise ArenaError(f"{label} returned {type(scored).__name__}, not a TrajectoryGroup")
    return scored
