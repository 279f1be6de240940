"""The web viewer as a process, and requests to it byte by byte, for tests."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from command_line import first_line, killed_at_the_end, started

from arena.episodes.files import ReplayWriter, mark_as_written
from arena.episodes.match import Match, play
from arena.plugins.catalog import make_game


def record(
    folder: Path, stem: str, seed: int = 1, game: str = "kuhn_poker", **options: Any
) -> Path:
    """Play a game of bots and keep its replay."""
    made, writer = make_game(game, **options), ReplayWriter(folder, stem)
    bot = "bot:novice" if game == "cluedo" else "bot:random"
    specs = [bot] * made.num_players
    asyncio.run(play(Match(made, specs, seed), Match(made, specs, seed).seat(), watchers=[writer]))
    return writer.path


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class WebViewer:
    process: subprocess.Popen[str]
    port: int
    greeting: str

    def get(self, target: str, method: str = "GET", **headers: str) -> Answer:
        """The request line holds `target` as it is; headers' underscores are written as dashes."""
        given = {"Host": f"127.0.0.1:{self.port}"} | headers
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "Connection: close", "", ""])
        return self.exchange(head.encode("latin-1"))

    def ask(self, route: str, **fields: object) -> Answer:
        """A document; fields are encoded."""
        query = "&".join(f"{name}={quote(str(value))}" for name, value in fields.items())
        return self.get(f"/api/{route}?{query}")

    def exchange(self, request: bytes) -> Answer:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            answer = b""
            while data := connection.recv(2**16):
                answer += data
        return parse_answer(answer)

    def end(self) -> int:
        """The exit code after Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=60)


@contextmanager
def being_written(path: Path) -> Iterator[Path]:
    """As if a game were running that is written there."""
    with path.open("a", encoding="utf-8") as file:
        mark_as_written(file)
        yield path


def parse_answer(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    headers = {name.lower(): value for name, _, value in pairs}
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(_chunks(body))
    if headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    return Answer(int(status.split()[1]), headers, body)


def _chunks(body: bytes) -> Iterator[bytes]:
    while body:
        size, _, rest = body.partition(b"\r\n")
        yield rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]


@contextmanager
def serving(path: Path) -> Iterator[WebViewer]:
    """`arena replay PATH --web` on a free port."""
    process = started(f"replay {path} --web --port 0", path if path.is_dir() else path.parent)
    with killed_at_the_end(process):
        greeting = first_line(process)
        port = int(greeting.partition("http://127.0.0.1:")[2].partition("/")[0])
        yield WebViewer(process, port, greeting)
