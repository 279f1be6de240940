"""Scoring whole groups: a function of one's own, and ART's RULER with a judge on the loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arena.core.errors import ArenaError, UsageError
from backends.litellm_client import load_litellm
from trainers.rewards import load_group_scorer, score_group

pytest.importorskip("art")
pytest.importorskip("torch")
if TYPE_CHECKING:
    from trainers.hosts.art import TrajectoryGroup

SCORERS = """
async def by_length(group):
    for number, trajectory in enumerate(group):
        trajectory.metrics["length"] = len(trajectory.messages())
        trajectory.reward = float(number)
        trajectory.log(f"place {number}")
    return group
async def none(group):
    return None
async def fewer(group):
    group = group.__copy__()
    del group.trajectories[0]
    return group
async def endless(group):
    group.trajectories[1].reward = float("nan")
    return group
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
    from trainers.hosts.art import Trajectory, TrajectoryGroup

    return TrajectoryGroup(
        [
            Trajectory(
                messages_and_choices=[
                    {"role": "system", "content": "You play."},
                    {"role": "assistant", "content": answer},
                ],
                reward=number + 0.5,
                initial_policy_version=3,
                metrics={"win": number},
            )
            for number, answer in enumerate(answers)
        ]
    )


def test_a_scorer_decides_and_both_rewards_are_logged(scorers: str) -> None:
    group = group_of("pass", "bet")
    asyncio.run(score_group(load_group_scorer(f"{scorers}:by_length"), group))
    assert [trajectory.reward for trajectory in group] == [0.0, 1.0]
    assert [trajectory.logs for trajectory in group] == [["place 0"], ["place 1"]]
    assert group.trajectories[1].metrics == {
        "win": 1,
        "length": 2,
        "independent_reward": 1.5,
        "group_score": 1.0,
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "returned None"),
        ("fewer", "received 2 trajectories and returned 1"),
        ("endless", "gave the reward nan"),
        ("fails", r"failed: KeyError\('no judge'\)"),
        ("waits_for_nothing", "is not an async function"),
        ("scores", "returned list, not a TrajectoryGroup"),
    ],
)
def test_a_scorer_that_fails(scorers: str, name: str, message: str) -> None:
    scorer, group = load_group_scorer(f"{scorers}:{name}"), group_of("pass", "bet")
    with pytest.raises(ArenaError, match=f"the group scorer mine:{name} {message}"):
        asyncio.run(score_group(scorer, group, f"mine:{name}"))


def test_no_scorer(scorers: str) -> None:
    with pytest.raises(UsageError, match="--group-scorer scorers_of_my_own:nobody"):
        load_group_scorer(f"{scorers}:nobody")
    with pytest.raises(UsageError, match="there is no scorer 'ruler'"):
        load_group_scorer("ruler")


class Judge(BaseHTTPRequestHandler):
    """Prefers whoever bets."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        games = asked["messages"][-1]["content"].split("<trajectory id=")[1:]
        scores = [
            {"trajectory_id": str(n), "explanation": "bold", "score": 0.25 + 0.5 * ("bet" in game)}
            for n, game in enumerate(games, 1)
        ]
        said = {"role": "assistant", "content": json.dumps({"scores": scores})}
        body = json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "judge",
                "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def judge() -> Iterator[str]:
    """The address of a judge."""
    with HTTPServer(("127.0.0.1", 0), Judge) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_arts_ruler_is_a_scorer_as_it_is(judge: str) -> None:
    load_litellm()  # RULER asks through litellm, which else warns of its own classes at exit.
    group = group_of("pass", "bet", "pass")  # Imports ART, quietly.
    from art.rewards import ruler_score_group

    asks: dict[str, object] = {"api_base": judge, "api_key": "none"}
    ruler = partial(ruler_score_group, judge_model="openai/judge", extra_litellm_params=asks)
    before = list(group)
    asyncio.run(score_group(ruler, group))
    assert [trajectory.reward for trajectory in group] == [0.25, 0.75, 0.25]
    assert all(own is kept for own, kept in zip(group, before, strict=True))
    bold = group.trajectories[1]
    assert bold.metrics == {
        "win": 1,
        "ruler_score": 0.75,
        "independent_reward": 1.5,
        "group_score": 0.75,
    }
    assert bold.initial_policy_version == 3, "RULER's copies have none"
    assert bold.logs == ["RULER explanation: bold"]
