"""Scoring a whole group at once: whoever sees all games of a deal can compare them.

A scorer is an async function of an `art.TrajectoryGroup` that gives one back with other rewards. It
may ask a model. ART's RULER is one as it is:

    # judges.py, in the working directory
    from functools import partial
    from art.rewards import ruler_score_group

    ruler = partial(ruler_score_group, judge_model="openai/o4-mini")

and then `arena train cluedo --group-scorer judges:ruler`. (RULER reads one history per game, so
chats must grow by appending: a chat that had to be rebuilt is an error.) What the terms of --reward
gave is kept beside it, as `independent_reward`.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Protocol

from arena.core.errors import ArenaError
from arena.plugins.loader import catalog
from trainers.rewards.loading import load_function

if TYPE_CHECKING:
    from trainers.hosts.art import TrajectoryGroup


class GroupScorer(Protocol):
    """Gives the trajectories of a group, in the same order, other rewards."""

    async def __call__(self, group: TrajectoryGroup) -> TrajectoryGroup | None:
        """The same group changed, or a copy; None is a failure."""


def load_group_scorer(name: str) -> GroupScorer:
    """The scorer that --group-scorer names: `module:function`, or a name of the catalog.

    Raises UsageError if there is none.
    """
    scorer: GroupScorer
    if ":" in name:
        scorer = load_function(name, "--group-scorer")
    else:
        scorer = catalog().load("scorer", name)
    return scorer


async def score_group(scorer: GroupScorer, group: TrajectoryGroup, name: str = "") -> None:
    """Let the scorer decide the rewards of the group's trajectories, in place.

    Each gets the metrics `independent_reward`, its reward before, and `group_score`, the new one,
    beside what the scorer has logged. The trajectories stay the same objects: a copy may lack the
    policy versions and token ids that training needs. Raises ArenaError, with the `name` of the
    scorer, if it fails, or gives no group, another number of trajectories, or a reward that is no
    finite number.
    """
    who = f"the group scorer {name}".rstrip()
    before = [trajectory.reward for trajectory in group.trajectories]
    scored = await _scored(scorer, group, who)
    if len(scored.trajectories) != len(before):
        raise ArenaError(
            f"{who} was given {len(before)} trajectories and gave back {len(scored.trajectories)}"
        )
    for own, judged, earlier in zip(group.trajectories, scored.trajectories, before, strict=True):
        if not math.isfinite(judged.reward):
            raise ArenaError(f"{who} gave the reward {judged.reward}: no finite number")
        own.reward, own.logs = judged.reward, judged.logs
        own.metrics |= judged.metrics
        own.metrics |= {"independent_reward": earlier, "group_score": judged.reward}


async def _scored(scorer: GroupScorer, group: TrajectoryGroup, who: str) -> TrajectoryGroup:
    from trainers.hosts.art import TrajectoryGroup

    try:
        waiting = scorer(group)
        if not inspect.isawaitable(waiting):
            raise ArenaError(f"{who} is no async function: write `async def`")
        scored = await waiting
    except ArenaError:
        raise
    except Exception as error:  # The edge of a plugin: a user's function may fail in any way.
        raise ArenaError(f"{who} failed: {error!r}") from error
    if scored is None:
        raise ArenaError(f"{who} gave no scores; it knows why (swallow_exceptions=False)")
    if not isinstance(scored, TrajectoryGroup):
        raise ArenaError(f"{who} gave back no TrajectoryGroup, but {type(scored).__name__}")
    return scored
