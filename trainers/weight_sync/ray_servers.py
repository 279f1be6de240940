"""Model servers of a run on the nodes of a Ray cluster, in one placement group with the trainer.

Ray reserves a core for the trainer and one for each server, and a GPU for each of them if the
trainer uses one. An actor on each reserved place starts the server as a process (`ServerProcess`),
which ends with the actor, and so with its node and with the run. All nodes must see the run's
folder and the base model under the same paths.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from arena.core.errors import BackendError, StopPlaying, UsageError
from arena.episodes.executors.ray import SECONDS_TO_START, NodeVersions, join
from trainers.weight_sync.server_process import (
    HOST,
    START_SECONDS,
    STOP_SECONDS,
    ServerProcess,
    server_url,
)

SECONDS_TO_NOTICE = 60.0
"""Time in which Ray notices that a node is lost; until then it places actors there."""


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where a server is going to listen."""

    node: str
    host: str
    port: int


class ServerActor:
    """Holds one server process on its node."""

    def __init__(self) -> None:
        self._server: ServerProcess | None = None

    def open(
        self, name: str, port: int, log: Path, driver_node: str, versions: NodeVersions
    ) -> ServerPlace:
        """Choose the address.

        Raises UsageError if the node has other versions, does not see the folder of the log, or
        another program uses the port.
        """
        node = ray.util.get_node_ip_address()
        if versions != NodeVersions.here():
            raise UsageError(
                f"{name}: the Ray node {node} has {NodeVersions.here()}, the trainer {versions}: "
                "install the same versions on all nodes"
            )
        if not log.parent.is_dir():
            raise UsageError(
                f"{name}: the Ray node {node} does not see {log.parent}: all nodes must share the "
                "folder of --log-dir"
            )
        # On the node of the trainer no other machine needs to reach the server.
        is_here = ray.get_runtime_context().get_node_id() == driver_node
        self._server = ServerProcess(name, port, log, host=HOST if is_here else node)
        return ServerPlace(node, self._server.host, self._server.port)

    def restart(self, command: Sequence[str], variables: Mapping[str, str]) -> float:
        """Do what `ServerProcess.restart` describes."""
        assert self._server is not None, "open it first"
        return self._server.restart(command, variables)

    def is_running(self) -> bool:
        """Return whether the server was started and has not ended."""
        return self._server is not None and self._server.running

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()


class TrainerActor:
    """Holds the trainer's place; the trainer itself is the driver."""

    def gpus(self) -> list[str]:
        """Return the ids of the GPUs that Ray has reserved."""
        ids: dict[str, list[str]] = ray.get_runtime_context().get_accelerator_ids()
        return ids.get("GPU", [])


class ClusterPlacement:
    """Places for a trainer and its servers; reserved at the first use, freed by the last server."""

    def __init__(self, servers: int, address: str = "", *, with_gpus: bool = False) -> None:
        """`address` is that of the cluster; empty: RAY_ADDRESS, or a new one on this machine."""
        self._servers = servers
        self._address = address
        self._share = {"CPU": 1.0} | ({"GPU": 1.0} if with_gpus else {})
        """Share of its node that each place has."""
        self._lock = threading.Lock()
        self._taken: set[int] = set()
        self._group: Any = None
        self._trainer: Any = None
        self._is_ours = False

    def start(self, number: int) -> Any:
        """Return a new `ServerActor` at the place of this number, from 1 on.

        Raises:
            StopPlaying: the cluster has no room.
            UsageError: the trainer uses another GPU than the one that Ray has reserved for it.
        """
        with self._lock:
            self._taken.add(number)
            if self._group is None:
                self._reserve()
        # A server answers questions while it starts.
        return self._actor(ServerActor, number, self._share, max_concurrency=4)

    def _actor(self, kind: type, place: int, share: Mapping[str, float], **options: Any) -> Any:
        remote = ray.remote(
            num_cpus=share.get("CPU", 0.0),
            num_gpus=share.get("GPU", 0.0),
            scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, place),
            # Ray itself must not restart it: a server without its weights would answer.
            max_restarts=0,
            **options,
        )
        return remote(kind).remote()

    def leave(self, number: int) -> None:
        """Give up a place. With the last one, the reservation and the connection end."""
        with self._lock:
            self._taken.discard(number)
            if self._taken or self._group is None:
                return
            self._free()

    def _reserve(self) -> None:
        self._is_ours = join(self._address or None)
        own = ray.get_runtime_context().get_node_id()
        here = next(node["Resources"] for node in ray.nodes() if node["NodeID"] == own)
        # The head of a cluster often has no cores to give; the trainer runs there all the same.
        trainer = {name: 1.0 for name in self._share if here.get(name, 0.0) >= 1}
        trainer |= {name: 0.001 for name in here if name.startswith("node:") and "__" not in name}
        try:
            bundles = [trainer, *[self._share] * self._servers]
            self._group = placement_group(bundles, strategy="SPREAD")
            self._wait()
            self._check_gpu(trainer)
        except BaseException:
            self._free()
            raise

    def _wait(self) -> None:
        if self._group.wait(SECONDS_TO_START):
            return
        print(f"Ray: {self._servers} model servers wait for free cores", file=sys.stderr)
        if not self._group.wait(START_SECONDS):
            total, free = ray.cluster_resources(), ray.available_resources()
            room = ", ".join(
                f"{free.get(name, 0.0):g} of {total.get(name, 0.0):g} {word} free"
                for name, word in (("CPU", "cores"), ("GPU", "GPUs"))
            )
            gpu = " and a GPU" if "GPU" in self._share else ""
            raise StopPlaying(
                f"the Ray cluster has no room for the trainer and servers={self._servers}, each "
                f"with a core{gpu}: {room}; add nodes, or lower servers"
            )

    def _check_gpu(self, trainer: Mapping[str, float]) -> None:
        """Hold the trainer's place. Raises UsageError if its GPU is not the reserved one."""
        self._trainer = self._actor(TrainerActor, 0, trainer)
        reserved: list[str] = ray.get(self._trainer.gpus.remote())
        used = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        if reserved and reserved[0] != used:
            raise UsageError(
                f"Ray has reserved GPU {reserved[0]} for the trainer, which uses GPU {used}: start "
                f"it with CUDA_VISIBLE_DEVICES={reserved[0]}"
            )

    def _free(self) -> None:
        if self._trainer is not None:
            ray.kill(self._trainer)
        if self._group is not None:
            remove_placement_group(self._group)
        self._group = self._trainer = None
        if self._is_ours:
            ray.shutdown()


class PlacedServer:
    """Starts, restarts and stops one server on a node of the cluster."""

    def __init__(
        self, placement: ClusterPlacement, number: int, name: str, port: int, log: Path
    ) -> None:
        """Reserve nothing yet; the arguments after `number` are those of `ServerProcess`."""
        self._placement = placement
        self._number = number + 1  # 0 is the trainer's place.
        self._name = name
        self._wanted_port = port
        self._log = log
        self._actor: Any = None
        self._place = ServerPlace("", "", 0)

    @property
    def host(self) -> str:
        """Return the IP address at which the server listens."""
        return self._place.host

    @property
    def port(self) -> int:
        """Return its port."""
        return self._place.port

    @property
    def url(self) -> str:
        """Return the base URL, without a path."""
        return server_url(self.host, self.port)

    @property
    def running(self) -> bool:
        """Return whether the server was started and has not ended; with its node it ends."""
        return self._ask() is True

    def place(self) -> None:
        """Start an actor, unless there is one; Ray finds another node for a lost one.

        Raises:
            StopPlaying: the cluster has no room.
            UsageError: as `ServerActor.open`.
            BackendError: each node that Ray chose was lost, for a minute; retryable.
        """
        deadline = time.monotonic() + SECONDS_TO_NOTICE
        while self._ask() is None:
            try:
                self._open()
            except BackendError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)

    def _open(self) -> None:
        self._actor = self._placement.start(self._number)
        node = ray.get_runtime_context().get_node_id()
        opening = self._actor.open.remote(
            self._name, self._wanted_port, self._log.absolute(), node, NodeVersions.here()
        )
        self._place = self._answer(opening)

    def restart(self, command: Sequence[str], variables: Mapping[str, str]) -> float:
        """Do what `ServerProcess.restart` describes. Raises a retryable BackendError if lost."""
        seconds: float = self._answer(self._actor.restart.remote(list(command), dict(variables)))
        return seconds

    def stop(self) -> None:
        """Stop the server, and give up its place."""
        actor, self._actor = self._actor, None
        if actor is not None:
            with suppress(RayError):  # Lost already, or still starting: its end stops the server.
                ray.get(actor.stop.remote(), timeout=STOP_SECONDS)
            ray.kill(actor)
        self._placement.leave(self._number)

    def _ask(self) -> bool | None:
        """Return whether the server runs; None: it has no node, or its node is lost."""
        if self._actor is None:
            return None
        try:
            return bool(ray.get(self._actor.is_running.remote()))
        except RayError:
            self._actor = None
            return None

    def _answer(self, call: Any) -> Any:
        """Return the result of a call, or raise its error."""
        try:
            return ray.get(call)
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            self._actor = None
            reason = str(error).strip().splitlines()[0]
            message = f"{self._name}: its Ray node {self._place.node} was lost ({reason})"
            raise BackendError(message, "connection", retryable=True) from None
