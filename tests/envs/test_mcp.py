"""Seats for MCP clients: the SDK's own client over standard streams and over HTTP on loopback."""

# ruff: noqa: E402 - the imports below need the SDK.

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver", reason="the MCP SDK is not installed: make test-mcp")
pytestmark = pytest.mark.mcp

from hostile_heads import statuses
from mcp import Client, StdioServerParameters, stdio_client
from other_worlds import decisions

from arena.core.action import Step
from arena.episodes.record import DecisionLine
from arena.episodes.replay import Replay, read_replay

ARENA = [sys.executable, "-m", "arena"]
Choose = Callable[[list[str]], str]


def first(actions: list[str]) -> str:
    return actions[0]


@contextmanager
def serving(
    *arguments: str, cwd: Path, **variables: str
) -> Iterator[tuple[list[str], subprocess.Popen[str]]]:
    """Run `arena mcp … --http` until the end of the block; yield its URLs and its process."""
    process = subprocess.Popen(
        [*ARENA, "mcp", *arguments, "--port", "0", "--http"],
        cwd=cwd,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        text = line = process.stdout.readline()
        while line and "Ctrl-C" not in text:
            text += (line := process.stdout.readline())
        urls = re.findall(r"http://[^\s;]+/mcp[^\s;]*", text)
        assert urls, f"{text}{process.communicate()}"
        yield urls, process
    finally:
        process.terminate()
        process.communicate(timeout=20)


def stdio(*arguments: str, cwd: Path) -> Any:
    """Return the transport of a client that starts `arena mcp`."""
    words = [*ARENA, "mcp", *arguments]
    return stdio_client(StdioServerParameters(command=words[0], args=words[1:], cwd=cwd))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured result of a tool. Raises ValueError with the text of a refusal."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise ValueError(result.content[0].text)
    return dict(result.structured_content or {"text": result.content[0].text})


async def play(client: Client, choose: Choose = first, **join: Any) -> list[dict[str, Any]]:
    """Play a game to its end; return what `view` and `act` have answered, with legal actions."""
    seat = await call(client, "join", **join)
    handle, heard = seat["handle"], [seat]
    news = await call(client, "view", handle=handle)
    while news["status"] != "over":
        if news["status"] == "act":
            legal = await call(client, "legal_actions", handle=handle)
            heard.append(news | {"actions": legal["result"]})
            action = choose(legal["result"])
            news = await call(client, "act", handle=handle, action=action, turn=news["turn"])
        else:
            news = await call(client, "view", handle=handle)
    return [*heard, news]


def post(url: str, body: bytes, **headers: str) -> int:
    """Return the status of a raw request; 0 if the server closes the connection."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def finished(folder: Path, count: int) -> list[Path]:
    """Wait for this number of replays."""
    for _ in range(200):
        if len(found := sorted(folder.rglob("*.jsonl"))) >= count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{len(found)} of {count} replays")


def failures(replay: Replay, seat: int) -> list[str]:
    lines = [line for line in replay.moves if isinstance(line, DecisionLine)]
    return [line.failure for line in lines if line.player == seat and line.failure]


def steps(replay: Replay) -> list[Step]:
    return [Step(walked.ply.player, walked.ply.decision.action) for walked in replay.walk()]


def check_nothing_hidden(replay: Replay, heard: list[dict[str, Any]], rng: random.Random) -> bool:
    """Compare what a client has read with what it would read in another world.

    Returns whether the worlds differ.
    """
    game, played = replay.make_game(), steps(replay)
    joined, *asked, _end = heard
    seat = joined["seat"]
    last = max((n for n, step in enumerate(played) if step.player == seat), default=0)
    other = game.analysis.resample(played[:last], seat, rng)
    assert other is not None
    read = 0
    expected = []
    # The last decision was forced, and not asked for, if there is one less.
    for observation in decisions(game, other, seat)[: len(asked)]:
        expected.append((observation.text("notes", read), [*map(str, observation.legal_actions)]))
        read = observation.num_events
    assert [(news["text"], news["actions"]) for news in asked] == expected
    return other != played[:last]


@pytest.mark.parametrize(
    ("name", "games"), [("kuhn_poker", 20), ("leduc_poker", 20), ("cluedo", 8)]
)
def test_games_show_a_seat_nothing_hidden(name: str, games: int, tmp_path: Path) -> None:
    rng = random.Random(1)

    async def all_games(url: str) -> list[list[dict[str, Any]]]:
        async with Client(url) as client:
            return [await play(client, rng.choice) for _ in range(games)]

    with serving(name, "--seed", "1", "--text-level", "notes", cwd=tmp_path) as ([url], _):
        heard = asyncio.run(all_games(url))
        replays = {r.header.seed: r for r in map(read_replay, finished(tmp_path, games))}
    differ = [check_nothing_hidden(replays[n + 1], each, rng) for n, each in enumerate(heard)]
    assert sum(differ) > games / 4
    assert all(replay.outcome is not None for replay in replays.values())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_standard_streams(mode: str, tmp_path: Path) -> None:
    async def one_game() -> tuple[list[dict[str, Any]], set[str]]:
        server = stdio("cluedo", "--players", "3", "--seat", "1=mcp", cwd=tmp_path)
        async with Client(server, mode=mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            rules = await call(client, "rules")
            assert rules["text"].startswith("Cluedo")
            heard = await play(client)
            handle = heard[0]["handle"]
            whole = await call(client, "view", handle=handle, whole=True)
            assert whole["text"].startswith("You are Player 1.")
            return heard, names

    heard, names = asyncio.run(one_game())
    assert names == {"join", "rules", "view", "legal_actions", "act"}
    assert heard[-1]["status"] == "over"
    (path,) = finished(tmp_path / "runs" / "mcp", 1)
    replay = read_replay(path)
    assert replay.header.players[1] == "mcp"


def test_twenty_seats_at_once(tmp_path: Path) -> None:
    async def one(url: str) -> list[dict[str, Any]]:
        async with Client(url) as client:
            return await play(client)

    async def all_seats(urls: list[str]) -> list[list[dict[str, Any]]]:
        return await asyncio.gather(*(one(url) for url in urls for _ in range(10)))

    seats = ("--seat", "0=mcp", "--seat", "1=mcp")
    with serving("leduc_poker", *seats, cwd=tmp_path) as (urls, _):
        heard = asyncio.run(all_seats(urls))
        replays = [read_replay(path) for path in finished(tmp_path, 10)]
    assert sorted(each[0]["seat"] for each in heard) == [0] * 10 + [1] * 10
    assert all(each[-1]["status"] == "over" for each in heard)
    assert not [text for replay in replays for seat in (0, 1) for text in failures(replay, seat)]


def test_a_client_that_dies_costs_the_others_two_decisions(tmp_path: Path) -> None:
    async def two_clients(urls: list[str]) -> tuple[list[dict[str, Any]], float]:
        async with Client(urls[0]) as lost, Client(urls[1]) as client:
            handle = (await call(lost, "join", seat=0))["handle"]
            started = time.monotonic()
            heard = await play(client, seat=1)
            with pytest.raises(ValueError, match="game is over"):
                await call(lost, "act", handle=handle, action="bid 1")
            return heard, time.monotonic() - started

    seats = ("--seat", "0=mcp", "--seat", "1=mcp", "--turn-seconds", "0.5")
    with serving("goofspiel", *seats, cwd=tmp_path) as (urls, _):
        heard, seconds = asyncio.run(two_clients(urls))
        (path,) = finished(tmp_path, 1)
    assert heard[-1]["status"] == "over"
    assert seconds < 10
    texts = failures(read_replay(path), 0)
    assert "no decision within 0.5 seconds" in texts[0]
    assert "no decision within 0.5 seconds" in texts[1]
    assert texts[2:] and all("the player has left" in text for text in texts[2:])


def test_wrong_calls_are_refused_in_one_line(tmp_path: Path) -> None:
    async def refusals(urls: list[str]) -> list[str]:
        texts = []
        async with Client(urls[0]) as client, Client(urls[1]) as thief:
            mine = await call(client, "join", seat=0)
            handle = mine["handle"]
            waiting = [
                ("join", {"seat": 1}),
                ("join", {"seat": 7}),
                ("act", {"handle": handle, "action": "call"}),
                ("legal_actions", {"handle": handle}),
                ("view", {"handle": ""}),
                ("view", {"handle": handle[:-1]}),
                ("act", {"handle": "a" * 10_000, "action": "call"}),
                ("view", {}),
                ("act", {"handle": handle, "action": 5}),
            ]
            for tool, arguments in waiting:
                with pytest.raises(ValueError) as refusal:
                    await call(client, tool, **arguments)
                texts.append(str(refusal.value))
            other = (await call(thief, "join"))["handle"]
            news = await call(client, "view", handle=handle)
            assert (news["status"], news["turn"]) == ("act", 0)
            playing = [
                ("act", {"handle": other, "action": "call"}),  # Out of turn.
                ("act", {"handle": handle, "action": "fly away"}),
                ("act", {"handle": handle, "action": "call", "turn": 4}),
                ("act", {"handle": handle, "action": "x" * 3000}),
            ]
            for tool, arguments in playing:
                with pytest.raises(ValueError) as refusal:
                    await call(client, tool, **arguments)
                texts.append(str(refusal.value))

            # Two clients for one seat: one of their answers counts.
            async def reply() -> None:
                await call(thief, "view", handle=other)
                await call(thief, "act", handle=other, action="fold")

            same = {"handle": handle, "action": "raise", "turn": 0}
            one, two, _ = await asyncio.gather(
                client.call_tool("act", same), thief.call_tool("act", same), reply()
            )
            assert [one.is_error, two.is_error].count(True) == 1
        return texts

    seats = ("--seat", "0=mcp", "--seat", "1=mcp")
    with serving("leduc_poker", *seats, cwd=tmp_path) as (urls, process):
        texts = asyncio.run(refusals(urls))
        assert process.poll() is None
    assert all("Traceback" not in text for text in texts)
    assert "this address is for seat 0; seat 1 is for another client" in texts[0]
    assert "this address is for seat 0; seat 7 is for another client" in texts[1]
    assert all("not your turn yet" in text for text in texts[2:4])
    assert all("no seat has this handle" in text for text in texts[4:7])
    assert "seat 1 is not to act now" in texts[9]
    assert "turn 4 of seat 0 is to come" in texts[11]
    assert "3,000 characters, at most 2,000" in texts[12]


def test_one_client_cannot_take_two_seats(tmp_path: Path) -> None:
    """Over HTTP the address decides, not what a client sends; other addresses open nothing."""

    async def attempts(urls: list[str]) -> set[str]:
        texts = set()
        async with Client(urls[0]) as client:
            assert (await call(client, "join"))["seat"] == 0
            assert (await call(client, "join"))["seat"] == 0  # Of another game.
        bare = urls[0].rpartition("/")[0]
        async with Client(bare) as client:
            for seat in ({}, {"seat": 0}):
                with pytest.raises(ValueError) as refusal:
                    await call(client, "join", **seat)
                texts.add(str(refusal.value))
        assert post(f"{bare}/x", b"{}") == post(f"{urls[0]}x", b"{}") == 404
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"join"}}'
        headers = {"Accept": "application/json, text/event-stream", "X-Arena-Seat": "1"}
        request = urllib.request.Request(
            urls[0], body, {"Content-Type": "application/json", **headers}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert b'"seat":0' in answer.read().replace(b" ", b"").replace(b"\\", b"")
        return texts

    seats = ("--seat", "0=mcp", "--seat", "1=mcp")
    with serving("kuhn_poker", *seats, cwd=tmp_path) as (urls, _):
        [text] = asyncio.run(attempts(urls))
    assert "each seat has an address of its own" in text


def test_a_signal_ends_the_server_on_standard_streams(tmp_path: Path) -> None:
    command = [*ARENA, "mcp", "kuhn_poker"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b"no JSON\n[1]\n\xff\n")
        process.stdin.flush()
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        process.wait(10)  # Its standard input is still open.
        assert b"Traceback" not in process.stderr.read()


def test_a_server_with_models_leaves_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "script.txt").write_text('"pass"\n', encoding="utf-8")
    seats = ("--seat", "0=mcp", "--seat", "1=scripted:script.txt", "--out", "out")
    command = [*ARENA, "mcp", "kuhn_poker", *seats]
    subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, check=True, timeout=60)
    assert (tmp_path / "out" / "run.ledger.json").exists()


def test_key(tmp_path: Path) -> None:
    with serving("kuhn_poker", cwd=tmp_path, ARENA_API_KEY="secret") as ([url], _):
        assert post(url, b"{}") == 401
        assert set(statuses(url, "/mcp").values()) <= {400, 401, 403}
        foreign = {"Origin": "http://example.com", "Authorization": "Bearer secret"}
        assert post(url, b"{}", **foreign) == 403


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["mcp", "kuhn_poker", "--seat", "0=bot:random"], "add --seat 0=mcp"),
        (["mcp", "kuhn_poker", "--http", "--host", "0.0.0.0"], "a key is required"),
        (["mcp", "kuhn_poker", "--seat", "0=mcp", "--seat", "1=mcp"], "it plays one seat"),
    ],
)
def test_wrong_flags(arguments: list[str], reason: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*ARENA, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert reason in done.stderr and done.stderr.count("\n") == 1
