"""Workers on a Ray cluster: one actor for each worker.

Ray places actors on nodes, waits for free cores, reports lost actors and transfers the messages.
Everything else is that of worker processes: an actor keeps no state, its creation has no arguments,
and the driver repeats the work of a lost one (`WorkerPool`). Actors end with their driver.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any, Self

import ray
from ray.exceptions import (
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    RayActorError,
    RayError,
)

from arena.core.errors import ArenaError
from arena.core.version import __version__
from arena.episodes.executors.pool import WorkerPool
from arena.episodes.executors.worker import serve
from arena.llm.service import LLMService

SECONDS_TO_START = 20.0
"""Time without a free core after which people are informed that an actor waits for one."""
SECONDS_TO_ANSWER = 10.0
"""Time in which a cluster accepts a connection."""
LAUNCHES = 3
"""Attempts to start a worker: its node may be lost meanwhile."""


class RayPool(WorkerPool):
    """Executor on a Ray cluster, for as long as the connection to it lasts."""

    shares_files = False

    def __init__(
        self, workers: int | None = None, llm: LLMService | None = None, address: str | None = None
    ) -> None:
        super().__init__(ActorChannel.start, workers or 0, llm)
        self._address = address
        self._is_ours = False

    async def __aenter__(self) -> Self:
        self._is_ours = await asyncio.to_thread(join, self._address)
        cores = ray.cluster_resources().get("CPU", 1) - _reserved_cores()
        self.workers = self.workers or max(1, int(cores))
        return self

    async def close(self) -> None:
        await super().close()
        if self._is_ours:
            await asyncio.to_thread(ray.shutdown)


def join(address: str | None = None) -> bool:
    """Connect as `connect` does, unless this process is connected; return whether it was not."""
    if ray.is_initialized():
        return False
    connect(address)
    return True


def _reserved_cores() -> float:
    """Return the cores of all placement groups, e.g. of model servers: workers get none of them."""
    groups = ray.util.placement_group_table().values()
    bundles = [b for each in groups if each["state"] == "CREATED" for b in each["bundles"].values()]
    return sum(float(bundle.get("CPU", 0.0)) for bundle in bundles)


def connect(address: str | None = None) -> None:
    """Connect to a cluster: of this address, of RAY_ADDRESS, or a new one on this machine.

    Raises ArenaError if the cluster cannot be reached.
    """
    # Ray sends statistics to its makers otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    place = address or os.environ.get("RAY_ADDRESS")
    remedy = "'ray start --head' starts one, address=… names it"
    try:
        if place:
            _knock(place)
            # The port answers. Ray's own error is the same whatever the reason.
            remedy = (
                "if it asks for a token, as 'ray start' says, set RAY_AUTH_MODE=token here and "
                "copy ~/.ray/auth_token of its first machine; both need the same version of Ray"
            )
        ray.init(
            address=place or "local", namespace="arena", log_to_driver=False, logging_level="ERROR"
        )
    except Exception as error:  # Ray raises errors of any class, e.g. if its start takes too long.
        where = f"at {place}" if place else "on this machine"
        lines = str(error).strip().splitlines()
        raise ArenaError(
            f"cannot connect to a Ray cluster {where}: {lines[0] if lines else error!r}; {remedy}"
        ) from error


def _knock(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT: Ray itself tries again for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()


@dataclass(frozen=True, slots=True)
class NodeVersions:
    """The versions with which a worker runs; they must be those of the driver."""

    arena: str
    python: str

    @classmethod
    def here(cls) -> NodeVersions:
        """Return those of this process."""
        return cls(__version__, ".".join(map(str, sys.version_info[:2])))

    def __str__(self) -> str:
        return f"arena {self.arena} with Python {self.python}"


class WorkerActor:
    """Runs units of work in an actor. It is the channel of its own worker loop."""

    def __init__(self) -> None:
        self._inbox: asyncio.Queue[object | None] = asyncio.Queue()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> tuple[NodeVersions, str]:
        """Start to serve; returns the versions and the address of the node."""
        self._serving = asyncio.create_task(serve(self))
        return NodeVersions.here(), ray.util.get_node_ip_address()

    async def push(self, message: bytes) -> None:
        """Take a message of the driver."""
        self._inbox.put_nowait(pickle.loads(message))

    async def pull(self) -> list[bytes]:
        """Return all messages for the driver, as soon as there is one."""
        messages = [await self._outbox.get()]
        while not self._outbox.empty():
            messages.append(self._outbox.get_nowait())
        return messages

    async def stop(self) -> None:
        """Drop the work, so that its files are closed."""
        self._inbox.put_nowait(None)
        if self._serving is not None:
            await self._serving

    # The channel, seen from the worker.

    def send(self, message: object) -> None:
        self._outbox.put_nowait(pickle.dumps(message))

    async def receive(self) -> object | None:
        return await self._inbox.get()


class ActorChannel:
    """An actor and the channel to it."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._received: deque[object] = deque()
        self.loss = ""
        self._has_ended = False

    @classmethod
    async def start(cls) -> ActorChannel:
        """Start an actor, as soon as the cluster has a free core.

        Raises ArenaError if its node has other versions, or if the cluster fails.
        """
        for attempt in range(LAUNCHES):
            try:
                return cls(await _start_actor())
            except RayError as error:  # Its node was lost, or the cluster itself.
                if attempt == LAUNCHES - 1:
                    lines = str(error).strip().splitlines()
                    raise ArenaError(f"Ray cannot start a worker: {lines[0]}") from error
        raise AssertionError("the last attempt raises")

    def send(self, message: object) -> None:
        # A call after the end of the connection would make Ray connect again.
        if self._has_ended:
            return
        try:
            # Errors of a lost actor are those of `receive`.
            self._actor.push.remote(pickle.dumps(message))
        except (ObjectStoreFullError, OutOfDiskError) as error:
            raise ArenaError(
                "Ray cannot send work: the object store and the disk of this machine are full; "
                "free the disk that Ray spills to, or start Ray with more --object-store-memory"
            ) from error

    async def receive(self) -> object | None:
        if not self._received:
            try:
                batch = await self._actor.pull.remote()
            except RayError as error:
                self.loss = _reason(error)
                return None
            self._received.extend(map(pickle.loads, batch))
        return self._received.popleft()

    async def end(self) -> None:
        """Let the actor close its files, then end it."""
        self._has_ended = True
        try:
            async with asyncio.timeout(5):
                await self._actor.stop.remote()
        except (RayError, TimeoutError):
            pass  # It is lost already, or it computes.
        ray.kill(self._actor)


def _reason(error: RayError) -> str:
    """Return why a worker was lost."""
    match error:
        case OutOfMemoryError():
            return "out of memory: Ray's memory monitor has killed it"
        case ObjectStoreFullError() | OutOfDiskError():
            return "because the object store and the disk of its node are full"
        case RayActorError():
            return "killed (out of memory?), or gone with its node"
        case _:
            return f"with {str(error).strip().splitlines()[0]}"


async def _start_actor() -> Any:
    # Ray itself must not restart actors or repeat calls: the pool repeats whole units of work.
    remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(WorkerActor)
    actor = remote.remote()
    started = asyncio.ensure_future(actor.start.remote())
    try:
        done, _ = await asyncio.wait([started], timeout=SECONDS_TO_START)
        if not done:
            print("Ray: a worker waits for a free core of the cluster", file=sys.stderr)
        versions, node = await started
    except asyncio.CancelledError:
        started.cancel()
        ray.kill(actor)
        raise
    if versions != NodeVersions.here():
        ray.kill(actor)
        raise ArenaError(
            f"the Ray node {node} has {versions}, this process {NodeVersions.here()}: install the "
            "same versions on all nodes"
        )
    return actor
