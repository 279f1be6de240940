"""Clients that stall, flood or never read: the server keeps answering the others."""

from __future__ import annotations

import asyncio
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
uvicorn = pytest.importorskip("uvicorn")

from starlette.responses import Response  # noqa: E402

from arena.http import server as connections  # noqa: E402
from arena.http.server import DeadlineProtocol  # noqa: E402

pytestmark = pytest.mark.timed

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SERVER = """
import asyncio, resource
from starlette.responses import PlainTextResponse
from arena.http.server import ListeningSocket, run_server

async def fine(scope, receive, send):
    port = {"client-port": str(scope["client"][1])}
    await PlainTextResponse("fine", headers=port)(scope, receive, send)

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with ListeningSocket("127.0.0.1", 0) as listener:
    asyncio.run(run_server(fine, listener, listener.url, drain_seconds=1))
"""


@contextmanager
def limited_server() -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    """Run the server in a process that may open few files; yield the process and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            assert selector.select(timeout=60), "the server printed nothing"
        yield process, ("127.0.0.1", int(process.stdout.readline().rpartition(":")[2]))
    finally:
        process.kill()
        process.communicate(timeout=30)


def send(address: tuple[str, int], data: bytes) -> socket.socket:
    client = socket.create_connection(address, timeout=10)
    client.sendall(data)
    return client


def test_more_stalled_connections_than_files() -> None:
    """Each sends a whole request and a half of the next head; the 1,000 exceed all limits."""
    with limited_server() as (process, address), ExitStack() as stack:
        url = f"http://{address[0]}:{address[1]}"
        for number in range(1000):
            stack.enter_context(send(address, REQUEST + b"GET / HTTP/1.1\r\nHo"))
            if number % 250 == 249:
                started = time.monotonic()
                assert httpx.get(url, timeout=5).text == "fine"
                assert time.monotonic() - started < 2
        process.terminate()
        _, log = process.communicate(timeout=30)
        assert len(log) < 20_000


def test_connections_in_use_are_not_replaced() -> None:
    with limited_server() as (_, address), ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=f"http://{address[0]}:{address[1]}"))
        for _ in range(20):  # Used again and again, so it never waits longest.
            port = client.get("/").headers["client-port"]
            for _ in range(20):
                stack.enter_context(send(address, b"GET /"))
        assert client.get("/").headers["client-port"] == port


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = {"head": 0.3, "body": 0.3, "write": 0.3, "idle": 1.2}
    monkeypatch.setattr(connections, "PHASE_SECONDS", phases)
    monkeypatch.setattr(connections, "CHECK_SECONDS", 0.02)


Application = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


async def fine(scope: Any, receive: Any, send: Any) -> None:
    """Answer at once, without reading the body."""
    await Response("!")(scope, receive, send)


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answer with more than the buffers of sockets hold."""
    await Response(b"!" * 30_000_000)(scope, receive, send)


async def slow(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(1)
    await fine(scope, receive, send)


def ending_time(application: Application, *parts: bytes, read: bool = True) -> float:
    """Return how long after the first part the server ends a connection; a part each 0.1 s."""

    async def talk() -> float:
        config = uvicorn.Config(
            application, port=0, http=DeadlineProtocol, lifespan="off", log_level="critical"
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection(
            *server.servers[0].sockets[0].getsockname(), limit=2**10
        )
        started = time.monotonic()
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0.1)
            if not server.server_state.connections:
                break
        while server.server_state.connections:
            assert time.monotonic() - started < 5, "the connection never ends"
            await (reader.read(2**16) if read and not reader.at_eof() else asyncio.sleep(0.01))
        seconds = time.monotonic() - started
        writer.close()
        server.should_exit = True
        await serving
        return seconds

    return asyncio.run(talk())


DRIBBLE = [b"x"] * 40
BODY = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "least", "most"),
    [
        ([b""], 0.2, 0.8),  # It sends nothing.
        ([b"GET / HTTP/1.1\r\nX: ", *DRIBBLE], 0.2, 0.8),
        ([REQUEST + b"GET / HTTP/1.1\r\nX"], 0.2, 0.8),
        ([REQUEST, b"GET / HTTP/1.1\r\nX: ", *DRIBBLE], 0.3, 1.0),
        ([REQUEST], 1.0, 2.5),
        ([BODY, *DRIBBLE], 0.2, 0.8),  # Its answer came before its body.
    ],
)
def test_a_part_of_a_request_has_a_deadline(parts: list[bytes], least: float, most: float) -> None:
    assert least < ending_time(fine, *parts) < most


def test_a_client_that_does_not_read_has_a_deadline() -> None:
    assert ending_time(large, REQUEST, read=False) < 3


def test_a_slow_answer_is_no_fault_of_the_client() -> None:
    assert ending_time(slow, REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) > 1
