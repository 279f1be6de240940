"""`arena play --web` as a process, and people who play there over sockets."""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from command_line import first_line, killed_at_the_end, started
from websockets.sync.client import ClientConnection, connect

SECONDS = 60.0
get = partial(httpx.get, trust_env=False, timeout=SECONDS)
post = partial(httpx.post, trust_env=False, timeout=SECONDS)


@dataclass(frozen=True, slots=True)
class PlayProcess:
    process: subprocess.Popen[str]
    out: Path
    base: str
    tokens: list[str]
    """Of the table of the command: the seats of people, then the spectators."""

    def post(
        self, wanted: Mapping[str, object], headers: dict[str, str] | None = None
    ) -> httpx.Response:
        address = f"{self.base}/api/play/games"
        return post(address, json=wanted, headers=headers)

    def table(self, game: str, seats: list[str], **more: object) -> list[str]:
        """Lay a table without a pace; return the tokens of people, then that of spectators."""
        wanted = {"game": game, "seats": seats, "pace": 0, **more}
        answer = self.post(wanted)
        assert answer.status_code == 201, answer.text
        made = answer.json()
        return [*made["seats"].values(), made["spectators"]]

    def join(self, token: str, **more: Any) -> Person:
        return Person(self, token, **more)


@dataclass
class Person:
    """One open page, without a browser."""

    server: PlayProcess
    token: str
    origin: str | None = None
    events: list[str] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    """Every message of the server, as it was."""
    table: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._open = ExitStack()
        connection = connect(
            f"{self.server.base.replace('http', 'ws')}/api/play/seat/{self.token}",
            origin=self.origin,  # type: ignore[arg-type]
            proxy=None,
            open_timeout=SECONDS,
            close_timeout=1,
        )
        self.socket: ClientConnection = self._open.enter_context(connection)

    def receive(self, timeout: float = SECONDS) -> dict[str, Any]:
        """Take in one message; return it."""
        text = str(self.socket.recv(timeout))
        self.sent.append(text)
        message: dict[str, Any] = json.loads(text)
        self.table = message.get("table", self.table)
        self.events += [event["text"] for event in message.get("events", ())]
        self.parts |= message.get("parts", {})
        return message

    def send(self, **message: object) -> dict[str, Any]:
        """Send a message; return its answer."""
        self.socket.send(json.dumps(message))
        while True:
            received = self.receive()
            if "answer" in received:
                answer: dict[str, Any] = received["answer"]
                return answer

    def wait(self, *names: str) -> str:
        """Wait until one of these parts is there; return its name."""
        while True:
            for name in names:
                if self.parts.get(name):
                    return name
            self.receive()

    def drain(self) -> None:
        """Take in what has arrived, or arrives at once."""
        try:
            while True:
                self.receive(timeout=0.002)
        except TimeoutError:
            pass

    @property
    def actions(self) -> list[str]:
        """The texts of the legal actions of this turn."""
        return [action[0] for kind in self.parts["turn"]["kinds"] for action in kind["actions"]]

    def act(self, action: str, **more: object) -> dict[str, Any]:
        number = self.parts["turn"]["number"]
        answer = self.send(act=action, turn=number, **more)
        if not answer and self.parts.get("turn") and self.parts["turn"]["number"] == number:
            self.parts["turn"] = None
        return answer

    def close(self) -> None:
        self._open.close()


def play_out(people: list[Person], rng: random.Random) -> None:
    """Play at random until the game is over for all of them."""
    deadline = time.monotonic() + 2 * SECONDS
    while not all(person.parts.get("over") for person in people):
        assert time.monotonic() < deadline, "the game makes no progress"
        for person in people:
            person.drain()
            if person.parts.get("turn"):
                action = rng.choice(person.actions)
                assert person.act(action, sure=True) == {}, action


@contextmanager
def play_server(command: str, folder: Path) -> Iterator[PlayProcess]:
    """Run `arena play COMMAND --web` in a folder."""
    out = folder / "out"
    process = started(f"play {command} --web --out {out}", folder)
    with killed_at_the_end(process):
        greeting = first_line(process)  # It is written in one piece.
        assert process.stdout is not None
        while "To watch" not in greeting:
            greeting += (line := process.stdout.readline())
            assert line, "the server has ended"
        links = re.findall(r"(http://\S+)/play#(\S+)", greeting)
        yield PlayProcess(process, out, links[0][0], [token for _, token in links])
