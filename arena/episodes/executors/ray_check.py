"""Check of a Ray cluster: its nodes, their versions, and how many messages a worker takes."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from arena.episodes.executors.ray import NodeVersions, WorkerActor, connect

SECONDS_FOR_NODE = 60.0
"""Time in which a node must start an actor."""
MESSAGES = 500
"""Messages that are sent to measure their rate."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node of a cluster."""

    address: str
    cpus: float
    gpus: float
    memory_gib: float
    object_store_gib: float
    problem: str
    """Why the node cannot run workers; empty if it can, or if it has no cores to offer."""


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """What a cluster can do."""

    ray: str
    address: str
    nodes: tuple[NodeReport, ...]
    messages_per_second: float | None
    """Messages from the driver that one worker takes; None if there is no worker."""
    warnings: tuple[str, ...]

    @property
    def is_usable(self) -> bool:
        """Whether all nodes with cores can run workers, and there is at least one."""
        return self.messages_per_second is not None and not any(n.problem for n in self.nodes)


async def check_cluster(address: str | None) -> ClusterReport:
    """Connect to a cluster and start a worker on each node. Raises ArenaError without a cluster."""
    await asyncio.to_thread(connect, address)
    try:
        alive = [node for node in ray.nodes() if node["Alive"]]
        nodes = await asyncio.gather(*(_check_node(node) for node in alive))
        place = ray.get_runtime_context().gcs_address
        return ClusterReport(
            ray.__version__,
            place,
            tuple(nodes),
            await _message_rate() if any(n.cpus and not n.problem for n in nodes) else None,
            tuple(_warnings(place)),
        )
    finally:
        await asyncio.to_thread(ray.shutdown)


async def _check_node(node: dict[str, Any]) -> NodeReport:
    resources: dict[str, float] = node["Resources"]
    cpus = resources.get("CPU", 0.0)
    return NodeReport(
        node["NodeManagerAddress"],
        cpus,
        resources.get("GPU", 0.0),
        resources.get("memory", 0.0) / 2**30,
        resources.get("object_store_memory", 0.0) / 2**30,
        await _problem_of(node["NodeID"]) if cpus else "",
    )


async def _problem_of(node: str) -> str:
    """Start an actor on a node; return what is wrong with it."""
    here = NodeAffinitySchedulingStrategy(node, soft=False)
    # No core is taken: the check works while all of them are in use.
    actor = ray.remote(num_cpus=0, scheduling_strategy=here)(WorkerActor).remote()
    try:
        async with asyncio.timeout(SECONDS_FOR_NODE):
            versions, _ = await actor.start.remote()
    except TimeoutError:
        return f"no worker within {SECONDS_FOR_NODE:g} s"
    except RayError as error:
        # The last line of a remote traceback names the error, e.g. a missing package.
        return str(error).strip().splitlines()[-1]
    finally:
        ray.kill(actor)
    ours = NodeVersions.here()
    return "" if versions == ours else f"it has {versions}, this process {ours}"


async def _message_rate() -> float:
    actor = ray.remote(num_cpus=0)(WorkerActor).remote()
    try:
        await actor.start.remote()
        started = time.perf_counter()
        # A message that the worker loop ignores.
        await asyncio.gather(*(actor.push.remote(_NOTHING) for _ in range(MESSAGES)))
        return MESSAGES / (time.perf_counter() - started)
    finally:
        ray.kill(actor)


_NOTHING = b"\x80\x04K\x00."
"""The number 0, pickled."""


def _warnings(address: str) -> list[str]:
    host = address.rpartition(":")[0]
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    if is_local or os.environ.get("RAY_AUTH_MODE") == "token":
        return []
    return [
        f"the cluster listens at {address} without authentication: anyone who reaches it can run "
        "programs on it; set RAY_AUTH_MODE=token on all nodes, or keep it in a private network"
    ]
