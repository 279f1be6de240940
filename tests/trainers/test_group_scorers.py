"""Scoring whole groups by a function of one's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from made_up_groups import turn

from arena.core.errors import ArenaError
from arena.llm.backend import Message
from trainers.rewards import load_group_scorer, score_group
from trainers.trajectory import Trajectory, TrajectoryGroup

SCORERS = """
from dataclasses import replace
async def none(group):
    return None
async def fewer(group):
    return group.with_trajectories(group.trajectories[1:])
async def endless(group):
    return group.with_trajectories([one.with_reward(float("nan")) for one in group.trajectories])
async def no_reward(group):
    return group.with_trajectories([replace(one, reward=None) for one in group.trajectories])
async def no_metrics(group):
    return group.with_trajectories([replace(one, metrics=None) for one in group.trajectories])
async def fails(group):
    raise KeyError("no judge")
def waits_for_nothing(group):
    return group
async def scores(group):
    return [0.0, 1.0]
"""


@pytest.fixture
def scorers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working directory."""
    (tmp_path / "scorers_of_my_own.py").write_text(SCORERS)
    monkeypatch.chdir(tmp_path)
    return "scorers_of_my_own"


def group_of(*answers: str) -> TrajectoryGroup:
    """Games of one deal that differ in the last answer; their rewards are 0.5, 1.5, …"""
    trajectories = [
        Trajectory(
            (turn(answer, [7], [-1.0], messages=[Message("system", "You play.")], version=3),),
            metrics={"win": number},
        ).with_reward(number + 0.5)
        for number, answer in enumerate(answers)
    ]
    return TrajectoryGroup(tuple(trajectories))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "returned None"),
        ("fewer", "received 2 trajectories and returned 1"),
        ("endless", "gave the reward nan"),
        ("no_reward", "gave the reward None, which is not a finite number"),
        ("no_metrics", "gave the metrics None"),
        ("fails", r"failed: KeyError\('no judge'\)"),
        ("waits_for_nothing", "is not an async function"),
        ("scores", "returned list, not a TrajectoryGroup"),
    ],
)
def test_a_scorer_that_fails(scorers: str, name: str, message: str) -> None:
    scorer, group = load_group_scorer(f"{scorers}:{name}"), group_of("pass", "bet")
    with pytest.raises(ArenaError, match=f"the group scorer mine:{name} {message}"):
        asyncio.run(score_group(scorer, group, f"mine:{name}"))
