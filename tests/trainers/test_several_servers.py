"""Several servers that sample for one run: the same weights at all of them, proven at each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from test_adapter_server import (
    ASK,
    ModelServer,
    Table,
    train,
)
from tiny_model import build_tiny_model

from arena.core.errors import BackendError, StopPlaying, UsageError
from arena.llm.backend import Choice, Completion, Message, Request
from trainers.hosts.embedded import EmbeddedHost
from trainers.hosts.policy import HostedPolicy, SeveralServers


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=2, width=64)


@pytest.fixture
def servers(model: Path, tmp_path: Path) -> Iterator[list[ModelServer]]:
    served = [ModelServer(model, tmp_path) for _ in range(2)]
    yield served
    for server in served:
        server.stop()


def test_one_server_with_old_weights_stops_the_run(
    servers: list[ModelServer], model: Path, tmp_path: Path
) -> None:
    one, other = servers

    async def ignored(host: EmbeddedHost) -> None:
        other.ignore_adapters()
        with pytest.raises(StopPlaying, match=f"{other.url}/v1 still answers with other weights"):
            await train(host)

    Table(tmp_path, model).run(f"{one.url},{other.url}", ignored)


def test_servers_that_cannot_be_used(servers: list[ModelServer], model: Path) -> None:
    one, other = servers
    with pytest.raises(UsageError, match=f"--server: {one.url}/v1 is named twice"):
        EmbeddedHost(Table(model.parent, model).request(f"{one.url},{one.url}/v1")).preflight()
    # Its adapters may only lie below another folder.
    elsewhere = Table(model.parent, model).request(f"{one.url},{other.url}")
    with pytest.raises(UsageError, match=f"--server {one.url}: .*--lora-root"):
        EmbeddedHost(elsewhere).preflight()


class Answering:
    """A `HostedPolicy` that answers with its number when it is let."""

    def __init__(self, number: int) -> None:
        self.model, self.context_length = "m", 100
        self.number = number
        self.fails = False
        self.asked = 0
        self.go = asyncio.Event()

    async def complete(self, request: Request, *, is_last: bool) -> Completion:
        self.asked += 1
        await self.go.wait()
        if self.fails:
            raise BackendError("gone", "connection", retryable=True)
        return Completion((Choice(f"{self.number}"),), "m")


def asking(game: int) -> Request:
    return replace(ASK, messages=(Message("user", f"deal {game}"),))


def test_a_chat_stays_at_its_server_unless_that_has_too_much_to_do() -> None:
    async def distribute() -> None:
        answering = [Answering(number) for number in range(3)]
        several = SeveralServers(cast("list[HostedPolicy]", answering))
        # One at a time, a chat always goes to the same server.
        for one in answering:
            one.go.set()
        homes = {game: {(await several.complete(asking(game))).text for _ in range(3)}
                 for game in range(24)}  # fmt: skip
        assert all(len(answered) == 1 for answered in homes.values())
        assert set.union(*homes.values()) == {"0", "1", "2"}
        # Many requests of one chat at the same time are shared.
        for one in answering:
            one.go.clear()
            one.asked = 0
        running = [asyncio.create_task(several.complete(asking(0))) for _ in range(30)]
        await asyncio.sleep(0.01)
        assert sum(one.asked for one in answering) == 30
        assert max(one.asked for one in answering) <= 14
        for one in answering:
            one.go.set()
        await asyncio.gather(*running)

    asyncio.run(distribute())


def test_a_server_that_does_not_answer_is_left_alone_for_a_while() -> None:
    async def lose() -> None:
        answering = [Answering(number) for number in range(2)]
        several = SeveralServers(cast("list[HostedPolicy]", answering))
        for one in answering:
            one.go.set()
        answering[0].fails = True
        answers = {(await several.complete(asking(game))).text for game in range(20)}
        assert answers == {"1"} and answering[0].asked == 1
        answering[1].fails = True
        with pytest.raises(BackendError, match="gone"):
            await several.complete(asking(0))

    asyncio.run(lose())
