"""`arena a2a` with the SDK's own client over HTTP on loopback, and with players of the SDK."""

# ruff: noqa: E402 - the imports below need the SDK.

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a_servers import Servers, servers

pytest.importorskip("a2a.helpers", reason="the A2A SDK is not installed: make test-a2a")
pytestmark = pytest.mark.a2a

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_data_parts, get_text_parts, new_data_message, new_text_message
from a2a.types import CancelTaskRequest, Role, SendMessageRequest, TaskState

from arena.episodes.replay import read_replay, verify
from arena.evaluation.report import Report


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Servers]:
    with servers() as made:
        yield made


def judge(started: Servers, cwd: Path, *flags: str) -> str:
    words = [sys.executable, "-m", "arena", "a2a", "--port", "0", *flags]
    line = started.start([*words], cwd)
    found = re.search(r"http://[^\s;]+", line)
    assert found, line
    return found[0]


def request(url_by_role: dict[str, str], **config: object) -> dict[str, Any]:
    return {"participants": url_by_role, "config": {"game": "kuhn_poker", "games": 4, **config}}


def name_of(state: Any) -> str:
    return str(TaskState.Name(state)).removeprefix("TASK_STATE_").lower()


async def ask(url: str, data: object, as_text: bool = False, stop: bool = False) -> Any:
    """Send a request; return the task's last state and message, and the parts of its artifacts."""
    make: Any = new_text_message if as_text else new_data_message
    message = make(json.dumps(data) if as_text else data, role=Role.ROLE_USER)
    state, texts, parts, task_id = "", list[str](), list[Any](), ""
    async with httpx.AsyncClient(timeout=60) as http:
        client = await create_client(url, ClientConfig(streaming=True, httpx_client=http))
        async for event in client.send_message(SendMessageRequest(message=message)):
            if event.HasField("task"):
                task_id = event.task.id
            if event.HasField("artifact_update"):
                parts += event.artifact_update.artifact.parts
            if event.HasField("status_update"):
                status = event.status_update.status
                state = name_of(status.state)
                texts += get_text_parts(status.message.parts)
                if stop and state == "working":
                    # The SDK's server may leave the stream of a canceled task open.
                    task = await client.cancel_task(CancelTaskRequest(id=task_id))
                    return name_of(task.status.state), texts, parts
    return state, texts, parts


@pytest.mark.parametrize("as_text", [False, True])
def test_tournament(as_text: bool, started: Servers, tmp_path: Path) -> None:
    players = {"one": started.player("data"), "two": started.player("text")}
    url = judge(started, tmp_path)
    wanted = request(players, bots=["bot:random"], seed=5)
    state, texts, parts = asyncio.run(ask(url, wanted, as_text))
    assert state == "completed", texts
    [data] = get_data_parts(parts)
    assert get_text_parts(parts)[0]
    report = Report.model_validate(data["report"])
    assert report.kind == "tournament" and len(report.players) == 3
    assert data["participants"] == {role: f"a2a:{url}" for role, url in players.items()}
    for role in players:
        scores = data["scores"][role]
        assert scores["games"] >= 4 and scores["fallback_moves"] == 0
        assert scores["rating"] is not None
    replays = [read_replay(path) for path in (tmp_path / "runs" / "a2a").rglob("*.jsonl")]
    assert len(replays) == report.games
    assert not any(verify(replay) for replay in replays)


def test_one_participant_and_a_dead_one(started: Servers, tmp_path: Path) -> None:
    url = judge(started, tmp_path)
    wanted = request({"hero": started.player("artifact")}, game="goofspiel", games=3)
    state, _, parts = asyncio.run(ask(url, wanted))
    [data] = get_data_parts(parts)
    assert state == "completed" and data["report"]["kind"] == "eval"
    assert data["scores"]["hero"]["games"] == 3
    # An agent that dies in its first game: its games are played to the end.
    dying = request({"hero": started.player("death")}, game="goofspiel", games=3)
    state, _, parts = asyncio.run(ask(url, dying))
    assert state == "completed"
    assert get_data_parts(parts)[0]["scores"]["hero"]["fallback_moves"] > 3


def test_client_of_version_0_3(started: Servers, tmp_path: Path) -> None:
    """AgentBeats sends the request as the text of a message of version 0.3."""
    url = judge(started, tmp_path)
    with urllib.request.urlopen(f"{url}/.well-known/agent-card.json", timeout=30) as answer:
        card = json.load(answer)
    assert card["url"] == f"{url}/" and card["protocolVersion"] == "0.3"
    text = json.dumps(request({"hero": started.player("data")}))
    part = {"kind": "text", "text": text}
    message = {"kind": "message", "role": "user", "messageId": "1", "parts": [part]}
    call = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    answered = httpx.post(f"{url}/", json=call, timeout=60).json()["result"]
    assert answered["status"]["state"] == "completed"
    [artifact] = answered["artifacts"]
    assert [part["kind"] for part in artifact["parts"]] == ["text", "data"]
    assert artifact["parts"][1]["data"]["scores"]["hero"]["games"] == 4


def test_three_matches_at_once_and_a_canceled_one(started: Servers, tmp_path: Path) -> None:
    url = judge(started, tmp_path)
    silent, hero = started.player("silence"), started.player("data")

    async def all_matches() -> list[Any]:
        canceled = ask(url, request({"hero": silent}), stop=True)
        return await asyncio.gather(
            canceled, *(ask(url, request({"hero": hero})) for _ in range(3))
        )

    begun = time.perf_counter()
    (state, _, parts), *others = asyncio.run(all_matches())
    assert state == "canceled" and not parts
    assert [other[0] for other in others] == ["completed"] * 3
    assert time.perf_counter() - begun < 60
    assert len([*(tmp_path / "runs" / "a2a").iterdir()]) == 4


URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("hello", "has no JSON object"),
        ({}, "participants"),
        ({"participants": {}, "config": {"game": "kuhn_poker"}}, "participants"),
        (request({"a": URL}, game="no_such_game"), "no_such_game"),
        (request({"a": URL}, games=10**9), "games"),
        (request({"a": URL}, speed=1), "speed"),
        (request({"a": URL}, options={"cards": -1}), "cards"),
        (request({"a": URL}, bots=["agent:touch /tmp/x"]), "'agent:touch /tmp/x' is no bot"),
        (request({"a": URL}, bots=["bot:nobody"]), "no bot 'nobody'"),
        (request({"a": "file:///etc/passwd"}), "participant 'a'"),
        (request({"a": URL, "b": URL}), "have the same address: http"),
        (request({"a": URL, "b": f"{URL}9"}, game="hanabi"), "is not won"),
        (request({"a": URL}), "participant 'a': http://127.0.0.1:9: the A2A agent cannot be asked"),
    ],
)
def test_wrong_requests(data: object, reason: str, shared_judge: str) -> None:
    state, texts, parts = asyncio.run(ask(shared_judge, data))
    assert state in ("rejected", "failed") and not parts
    assert reason in texts[-1] and "\n" not in texts[-1] and "Traceback" not in texts[-1]


@pytest.fixture(scope="module")
def shared_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers() as made:
        yield judge(made, tmp_path_factory.mktemp("judge"))


def test_hostile_bodies(shared_judge: str) -> None:
    def post(body: bytes, kind: str = "application/json", **headers: str) -> int:
        head = {"Content-Type": kind, **headers}
        try:
            made = urllib.request.Request(shared_judge, body, head)
            with urllib.request.urlopen(made, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    assert post(b"x" * 100_000_000) in (0, 413, 503)
    assert post(b"<html>", "text/html") == 415
    assert post(b"{}", Origin="http://example.com") == 403
    assert post(b"[" * 100_000) in (200, 400, 500)
    state, _, _ = asyncio.run(ask(shared_judge, {}))
    assert state == "rejected"
