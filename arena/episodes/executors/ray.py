"""Workers on a Ray cluster: each function is a task of Ray.

Ray places tasks on nodes, waits for free cores, reports lost workers and transfers the bytes.
Everything else is that of worker processes (`WorkerPool`). Tasks end with their driver.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import sys
from dataclasses import dataclass
from typing import Any, Self

import ray
from ray.exceptions import (
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    RayError,
    WorkerCrashedError,
)

from arena.core.errors import ArenaError
from arena.core.version import __version__
from arena.episodes.executors.pool import WorkerLost, WorkerPool, answer
from arena.llm.service import LLMService

SECONDS_TO_START = 20.0
"""Time after which people are informed that work may wait for a free core."""
SECONDS_TO_ANSWER = 10.0
"""Time in which a cluster accepts a connection."""


class RayPool(WorkerPool):
    """Executor on a Ray cluster, for as long as the connection to it lasts."""

    def __init__(
        self, workers: int | None = None, llm: LLMService | None = None, address: str | None = None
    ) -> None:
        super().__init__(workers or 0, llm)
        self._address = address
        self._is_ours = self._is_informed = False

    async def __aenter__(self) -> Self:
        self._is_ours = await asyncio.to_thread(join, self._address)
        cores = ray.cluster_resources().get("CPU", 1) - _reserved_cores()
        self.workers = self.workers or max(1, int(cores))
        self._free = asyncio.Semaphore(self.workers)
        # Ray itself must not repeat calls: the pool does.
        self._answer = ray.remote(num_cpus=1, max_retries=0)(answer_on_node)
        return self

    async def close(self) -> None:
        await super().close()
        if self._is_ours:
            await asyncio.to_thread(ray.shutdown)

    async def call(self, work: bytes) -> bytes:
        async with self._free:
            try:
                task = self._answer.remote(work, NodeVersions.here())
            except (ObjectStoreFullError, OutOfDiskError) as error:
                raise ArenaError(
                    "Ray cannot send work: the object store and the disk of this machine are full; "
                    "free the disk that Ray spills to, or start Ray with more --object-store-memory"
                ) from error
            try:
                return await self._answer_of(task)
            except asyncio.CancelledError:
                ray.cancel(task)
                raise
            except RayError as error:
                raise WorkerLost(_reason(error)) from error

    async def _answer_of(self, task: Any) -> bytes:
        """Return the answer of a task; inform people if the first one takes long."""
        answering = asyncio.ensure_future(task)
        if not self._is_informed:
            done, _ = await asyncio.wait([answering], timeout=SECONDS_TO_START)
            if not done and not self._is_informed:
                print("Ray: a game plays or waits for a free core of the cluster", file=sys.stderr)
            self._is_informed = True
        answered: bytes = await answering
        return answered


def answer_on_node(work: bytes, versions: NodeVersions) -> bytes:
    """Return `answer(work)`, or an error if this node has other versions than the driver."""
    here = NodeVersions.here()
    if versions == here:
        return answer(work)
    error = ArenaError(
        f"the Ray node {ray.util.get_node_ip_address()} has {here}, the driver {versions}: install "
        "the same versions on all nodes"
    )
    return pickle.dumps((None, error))


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


def _reason(error: RayError) -> str:
    """Return why a worker was lost."""
    match error:
        case OutOfMemoryError():
            return "out of memory: Ray's memory monitor has killed it"
        case ObjectStoreFullError() | OutOfDiskError():
            return "because the object store and the disk of its node are full"
        case WorkerCrashedError():
            return "killed (out of memory?), or gone with its node"
        case _:
            return f"with {str(error).strip().splitlines()[0]}"
