"""`a2a:URL` against servers of the official SDK, and against servers that send anything."""

from __future__ import annotations

import asyncio
import http.server
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from a2a_servers import servers
from other_worlds import world_pairs

import arena
from arena.agents.agent import Seat
from arena.core.errors import UsageError
from arena.episodes.record import Episode

pytest.importorskip("a2a.helpers", reason="the A2A SDK is not installed: make test-a2a")
pytestmark = pytest.mark.a2a

Start = Callable[..., str]


@pytest.fixture
def player() -> Iterator[Start]:
    """Return a function that starts a server of the SDK and returns its SPEC."""
    with servers() as started:
        yield lambda *arguments: f"a2a:{started.player(*arguments)}"


@pytest.fixture
def server() -> Iterator[Callable[[dict[str, Any]], str]]:
    """Return a function that serves given bodies by path, and returns the SPEC of the server."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def serve(bodies: dict[str, Any]) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, headers, body = bodies.get(self.path, (404, {}, b"not here"))
                if body is None:
                    body = json.dumps(
                        card_at(f"http://127.0.0.1:{self.connection.getsockname()[1]}/")
                    )
                    body = body.encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(ConnectionError):  # The client has read enough.
                    self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=made.serve_forever, daemon=True).start()
        servers.append(made)
        return f"a2a:http://127.0.0.1:{made.server_address[1]}"

    yield serve
    for made in servers:
        made.shutdown()
        made.server_close()


CARD = "/.well-known/agent-card.json"


def card_at(url: str) -> dict[str, Any]:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {"name": "a card", "supportedInterfaces": [interface]}


async def playing(spec: str, game: str, seed: int = 3, seconds: float = 3600.0) -> Episode:
    made = arena.make_game(game)
    specs = [spec, *["bot:random"] * (made.num_players - 1)]
    return await arena.play(arena.Match(made, specs, seed, decision_seconds=seconds))


def play(spec: str, game: str = "goofspiel", seconds: float = 3600.0) -> Episode:
    return asyncio.run(playing(spec, game, seconds=seconds))


def failures(episode: Episode) -> list[str]:
    return [ply.decision.failure or "" for ply in episode.plies if ply.player == 0]


def details(episode: Episode) -> list[Mapping[str, Any]]:
    return [ply.decision.details for ply in episode.plies if ply.player == 0]


@pytest.mark.parametrize("behaviour", ["data", "text", "artifact", "conversation"])
def test_whole_game(behaviour: str, player: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    episode = play(player(behaviour, log))
    assert not any(failures(episode))
    first, *_ = details(episode)
    assert first["program"] == "first of all"
    assert ("the first one" if behaviour == "data" else "Action: ") in first["comment"]
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(messages) > 3
    # The server makes the context at the first message, and all others have it.
    assert len({message["context"] for message in messages}) == 1
    start, act = messages[0]["data"]
    assert (start["type"], start["seat"], act["type"], act["turn"]) == ("start", 0, "act", 0)
    assert start["rules"] in messages[0]["texts"][0] or "Action: " in messages[0]["texts"][0]
    assert messages[0]["texts"][1] == act["text"]
    assert all(len(message["data"]) == 1 for message in messages[1:])


def test_version_0_3(player: Start) -> None:
    assert not any(failures(play(player("artifact", "", "0.3"))))


def test_three_games_at_once(player: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = player("data", log)

    async def three() -> list[Episode]:
        return await asyncio.gather(*(playing(spec, "cluedo", seed) for seed in range(3)))

    assert not any(any(failures(episode)) for episode in asyncio.run(three()))
    contexts = [json.loads(line)["context"] for line in log.read_text().splitlines()]
    assert len(set(contexts)) == 3


def test_agent_that_dies_costs_its_seat_only(player: Start) -> None:
    started = time.perf_counter()
    first, *later, forced = failures(play(player("death")))
    assert not first and not forced and len(later) > 2
    assert all("the A2A agent cannot be asked" in text and "\n" not in text for text in later)
    assert time.perf_counter() - started < 20


def test_agent_that_never_answers_is_asked_once(player: Start) -> None:
    started = time.perf_counter()
    *texts, forced = failures(play(player("silence"), seconds=1.5))
    assert not forced
    assert set(texts) == {"the A2A agent gave no answer within 1.5 seconds"}
    assert time.perf_counter() - started < 20


def test_one_bad_answer_costs_one_move(player: Start) -> None:
    first, *later = failures(play(player("refusal")))
    assert first == "the task of the A2A agent is failed: out of tokens"
    assert later and not any(later)
    *texts, _forced = failures(play(player("prose")))
    assert all(texts) and "\n" not in "".join(texts)


OK = 200, {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        ({}, "HTTP 404"),
        ({CARD: (200, {}, b"<html><body>Welcome</body></html>")}, "Failed to parse JSON"),
        ({CARD: (*OK, b"[]")}, "must be a JSON object"),
        ({CARD: (*OK, b"{}")}, "no compatible transports"),
        ({CARD: (*OK, b"[" * 100_000)}, "recursion"),
        ({CARD: (*OK, b'"' + b"x" * 10**8 + b'"')}, "sent more than 1,048,576 bytes"),
        ({CARD: (200, {"Content-Encoding": "gzip"}, b"x")}, "has compressed its answer"),
        ({CARD: (302, {"Location": "/elsewhere"}, b"")}, "HTTP 302"),
        (
            {CARD: (*OK, json.dumps(card_at("http://example.com/")).encode())},
            "names an agent at another host: a2a:http://example.com/",
        ),
        ({CARD: (*OK, None), "/": (200, {}, b"<html>")}, "JSON Decode Error"),
        ({CARD: (*OK, None), "/": (*OK, b"{}")}, "'result'"),
        ({CARD: (*OK, None), "/": (*OK, b'{"result": 7}')}, "the A2A agent cannot be asked"),
        ({CARD: (*OK, None), "/": (500, {}, b"\xff\x00")}, "500"),
    ],
)
def test_garbage_costs_its_seat_only(
    bodies: dict[str, Any], reason: str, server: Callable[[dict[str, Any]], str]
) -> None:
    *texts, _forced = failures(play(server(bodies)))
    assert texts and all(reason in text for text in texts)
    assert all("\n" not in text and len(text) <= 500 for text in texts)


def test_unreachable_agent() -> None:
    *texts, _forced = failures(play("a2a:http://127.0.0.1:9"))
    assert texts and all("All connection attempts failed" in text for text in texts)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("a2a", "give a URL"),
        ("a2a:ftp://example.com", "give a URL"),
        ("a2a:http://me:secret@127.0.0.1", "not supported"),
        ("a2a:http://example.com:port", "seat 0"),
    ],
)
def test_wrong_url(spec: str, reason: str) -> None:
    from arena.agents.seating import make_agent

    with pytest.raises(UsageError, match=reason):
        make_agent(spec, Seat(arena.make_game("kuhn_poker"), 0, random.Random(0)))


@pytest.mark.parametrize("name", ["kuhn_poker", "cluedo", "leduc_poker"])
def test_messages_do_not_depend_on_hidden_information(
    name: str, player: Start, tmp_path: Path
) -> None:
    from arena.agents.a2a import A2AAgent

    log = tmp_path / "log"
    url = player("data", log).partition(":")[2]
    game, differ = arena.make_game(name), False

    async def messages(world: list[arena.Observation]) -> list[Any]:
        log.write_text("")
        agent = A2AAgent(url, Seat(game, 1, random.Random(0)))
        for observation in world:
            await agent.act(observation)
        await agent.close()
        lines = map(json.loads, log.read_text().splitlines())
        return [(line["texts"], line["data"]) for line in lines]

    for mine, theirs in world_pairs(game, 1, games=3):
        sent = asyncio.run(messages(mine))
        assert sent == asyncio.run(messages(theirs))
        differ |= bool(sent)
    assert differ


def test_commands(player: Start, tmp_path: Path) -> None:
    spec = player("text")
    eval_words = f"eval kuhn_poker --baseline bot:random --player {spec} --games 4 --json"
    for words in (f"play kuhn_poker --games 6 --seat 0={spec}", eval_words):
        command = [sys.executable, "-m", "arena", *words.split()]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr
