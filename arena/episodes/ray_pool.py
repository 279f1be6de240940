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
from functools import partial
from typing import Self

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
from arena.episodes.pool import WorkerLost, WorkerPool, answer
from arena.llm.service import LLMService

SECONDS_TO_START = 20.0
"""Time after which people are informed that work may wait for a free core."""
SECONDS_TO_ANSWER = 10.0
"""Time in which a cluster accepts a connection."""
VERSIONS = f"arena {__version__} with Python {sys.version_info[0]}.{sys.version_info[1]}"
"""Versions of this process; those of a worker must be those of the driver."""


class RayPool(WorkerPool):
    """Executor on a Ray cluster, for as long as the connection to it lasts."""

    def __init__(
        self, workers: int | None = None, llm: LLMService | None = None, address: str | None = None
    ) -> None:
        super().__init__(workers or 0, llm)
        self._address = address
        self._notice: asyncio.TimerHandle | None = None
        """Information of people if the first answer takes long."""

    async def __aenter__(self) -> Self:
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            await asyncio.to_thread(connect, self._address)
        self.workers = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        # Ray itself must not repeat calls: the pool does.
        self._answer = ray.remote(num_cpus=1, max_retries=0)(answer_on_node)
        return await super().__aenter__()

    async def close(self) -> None:
        if self._notice:
            self._notice.cancel()
        await super().close()
        if self._is_ours:
            await asyncio.to_thread(ray.shutdown)

    async def call(self, work: bytes) -> bytes:
        try:
            task = self._answer.remote(work, VERSIONS)
        except (ObjectStoreFullError, OutOfDiskError) as error:
            raise ArenaError(
                "Ray cannot send work: the object store and the disk of this machine are full; "
                "free the disk that Ray spills to, or start Ray with more --object-store-memory"
            ) from error
        if self._notice is None:
            text = "Ray: a game plays or waits for a free core of the cluster"
            show = partial(print, text, file=sys.stderr)
            self._notice = asyncio.get_running_loop().call_later(SECONDS_TO_START, show)
        try:
            answered: bytes = await task
        except asyncio.CancelledError:
            ray.cancel(task)
            raise
        except RayError as error:
            raise WorkerLost(_reason(error)) from error
        self._notice.cancel()
        return answered


def answer_on_node(work: bytes, versions: str) -> bytes:
    """Return `answer(work)`, or an error if this node has other versions than the driver."""
    if versions == VERSIONS:
        return answer(work)
    error = ArenaError(
        f"the Ray node {ray.util.get_node_ip_address()} has {VERSIONS}, the driver {versions}: "
        "install the same versions on all nodes"
    )
    return pickle.dumps((None, error))


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
