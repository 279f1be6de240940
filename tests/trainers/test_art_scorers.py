"""ART's RULER as a group scorer, with a judge on the loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from test_group_scorers import group_of

from backends.litellm_client import load_litellm
from trainers.rewards import score_group

pytest.importorskip("art")
pytest.importorskip("torch")


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


def test_arts_ruler_is_a_scorer(judge: str) -> None:
    load_litellm()  # RULER asks through litellm, which else warns of its own classes at exit.
    from trainers.hosts.art.convert import art_scorer  # Imports ART, quietly.

    group = group_of("pass", "bet", "pass")
    from art.rewards import ruler_score_group

    asks: dict[str, object] = {"api_base": judge, "api_key": "none"}
    ruler = partial(ruler_score_group, judge_model="openai/judge", extra_litellm_params=asks)
    scored = asyncio.run(score_group(art_scorer(ruler), group))
    assert [trajectory.reward for trajectory in scored.trajectories] == [0.25, 0.75, 0.25]
    bold = scored.trajectories[1]
    assert bold.metrics == {
        "win": 1,
        "ruler_score": 0.75,
        "independent_reward": 1.5,
        "group_score": 0.75,
    }
    [turn] = bold.turns
    assert (turn.policy_version, turn.text) == (3, "bet"), "RULER's copies have no versions"
