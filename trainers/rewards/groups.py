"""Scorers of whole groups, which can compare all games of a deal with each other.

A scorer is an async function that takes an `art.TrajectoryGroup` and returns one with other
rewards. It may ask a model. ART's RULER can be used directly:

    # judges.py, in the working directory
    from functools import partial
    from art.rewards import ruler_score_group

    ruler = partial(ruler_score_group, judge_model="openai/o4-mini")

and then `arena train cluedo --group-scorer judges:ruler`. RULER reads one history per game, so each
chat must only append messages; a chat that was rebuilt is an error. The reward from --reward is
kept as the metric `independent_reward`.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Protocol, cast

from arena.core.errors import ArenaError
from arena.plugins.loader import catalog
from trainers.rewards.loading import load_function

if TYPE_CHECKING:
    from trainers.hosts.art import TrajectoryGroup


class GroupScorer(Protocol):
    """Replaces the rewards of a group and keeps the order of its trajectories."""

    async def __call__(self, group: TrajectoryGroup) -> TrajectoryGroup | None:
        """Return the changed group or a copy; None means that scoring failed."""


def load_group_scorer(name: str) -> GroupScorer:
    """Return the scorer of --group-scorer: `module:function`, or a name of the catalog.

    Raises:
        UsageError: there is no such function or catalog entry.
    """
    if ":" in name:
        return cast("GroupScorer", load_function(name, "--group-scorer"))
    return cast("GroupScorer", catalog().load("scorer", name))


async def score_group(scorer: GroupScorer, group: TrajectoryGroup, name: str = "") -> None:
    """Replace the rewards of the group's trajectories, in place, by those of the scorer.

    Each trajectory gets two metrics beside those that the scorer logs: `independent_reward`, the
    reward before, and `group_score`, the new reward.

    Raises:
        ArenaError: the scorer, shown by its `name`, failed, or returned no group, a group of
            another size, or a reward that is not a finite number.
    """
    label = f"the group scorer {name}".rstrip()
    # Read before the call: a scorer may change the trajectories in place.
    previous = [trajectory.reward for trajectory in group.trajectories]
    scored = await _call(scorer, group, label)
    if len(scored.trajectories) != len(previous):
        raise ArenaError(
            f"{label} received {len(previous)} trajectories and returned "
            f"{len(scored.trajectories)}; return one for each, in the same order"
        )
    # Copy the results into the original objects: a scorer's copies may lack the policy versions
    # and token ids that training needs.
    for own, judged, before in zip(group.trajectories, scored.trajectories, previous, strict=True):
        if not math.isfinite(judged.reward):
            raise ArenaError(f"{label} gave the reward {judged.reward}, which is not finite")
        own.reward, own.logs = judged.reward, judged.logs
        own.metrics |= judged.metrics
        # After the scorer's metrics, so that these two names always have this meaning.
        own.metrics |= {"independent_reward": before, "group_score": judged.reward}


async def _call(scorer: GroupScorer, group: TrajectoryGroup, label: str) -> TrajectoryGroup:
    from trainers.hosts.art import TrajectoryGroup

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
