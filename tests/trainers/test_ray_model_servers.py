"""Servers of a run on the nodes of a Ray cluster (`make test-ray`): places, proofs, lost nodes."""

# ruff: noqa: E402 - the imports below need Ray.

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

ray = pytest.importorskip("ray")
from test_adapter_server import Table, answered_by, train
from tiny_model import build_tiny_model

from arena.core.errors import StopPlaying, UsageError
from arena.episodes.executors.factory import make_executor
from trainers.hosts.embedded import EmbeddedHost
from trainers.runs.records import RunFiles, read_records
from trainers.weight_sync import ray_servers
from trainers.weight_sync.lora_only import LoraOnly
from trainers.weight_sync.model_server import ModelServer

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=2, width=64)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without cores, and three nodes of one core."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(3):
        cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


def run(
    cluster: Any, table: Table, do: Callable[[EmbeddedHost], Awaitable[None]], **more: Any
) -> None:
    on_ray = {"executor": "ray", "address": cluster.address, "servers": 2}
    table.run("arena", do, **on_ray | more)


def server_node(host: EmbeddedHost, number: int) -> str:
    """Return the node on which a server runs."""
    actor = server_process(host, number)._actor

    def node(_: object) -> str:
        return str(ray.get_runtime_context().get_node_id())

    return str(ray.get(actor.__ray_call__.remote(node)))


def model_server(host: EmbeddedHost, number: int) -> ModelServer:
    assert isinstance(host.bridge, LoraOnly)
    server: ModelServer = [*host.bridge.servers][number]
    return server


def server_process(host: EmbeddedHost, number: int) -> ray_servers.PlacedServer:
    own = model_server(host, number).own
    assert own is not None and isinstance(own.process, ray_servers.PlacedServer)
    return own.process


def adapters(host: EmbeddedHost, number: int) -> set[str]:
    server = model_server(host, number)
    assert httpx.get(f"{server.url}/models").status_code == 401, "it listens beyond its node"
    return server.names() - {server.base_name}


def test_servers_on_different_nodes_have_the_weights_of_each_step_and_survive_a_lost_node(
    cluster: Any, model: Path, tmp_path: Path
) -> None:
    async def steps(host: EmbeddedHost) -> None:
        places = [server_node(host, number) for number in (0, 1)]
        assert len({*places, ray.get_runtime_context().get_node_id()}) == 3
        # What the servers and the trainer have is not for workers.
        async with make_executor("ray", address=cluster.address) as executor:
            assert executor.workers == 1
        for step in (1, 2):
            metrics = await train(host)
            assert metrics["swap_difference"] < 1e-4 and metrics["swap_moved"] > 1e-2
            assert adapters(host, 0) == adapters(host, 1) == {f"away@{step}"}
            await answered_by(host, None, step)
        lost = next(node for node in cluster.list_all_nodes() if node.node_id == places[0])
        cluster.remove_node(lost, allow_graceful=False)
        # The server lives on until its actor notices that the node is lost.
        while server_process(host, 0).running:
            await asyncio.sleep(0.1)
        # The other server answers; the next step waits until the first is at another node.
        await answered_by(host, None, 2)
        await train(host)
        assert server_node(host, 0) != places[0]
        assert adapters(host, 0) == adapters(host, 1) == {"away@3"}
        await answered_by(host, None, 3)

    try:
        run(cluster, Table(tmp_path, model), steps)
    finally:
        cluster.add_node(num_cpus=1)
    assert not ray.is_initialized()
    assert not servers_below(tmp_path)


def servers_below(folder: Path) -> list[psutil.Process]:
    """Return the model servers that may load adapters from this folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "--lora-root" in words and any(str(folder) in word for word in words):
            found.append(process)
    return found


def wait_until(holds: Callable[[], bool], log: Path) -> None:
    for _ in range(900):
        if holds():
            return
        time.sleep(0.1)
    raise TimeoutError(log.read_text())


def test_a_killed_run_leaves_no_server_and_resumes(
    cluster: Any, model: Path, tmp_path: Path
) -> None:
    command = [
        sys.executable, "-m", "arena", "train", "kuhn_poker", "--base-model", str(model),
        "--steps", "3", "--groups-per-step", "2", "--rollouts-per-group", "2", "--max-tokens", "8",
        "--eval-every", "0", "--final-eval-games", "0", "--reward", "win=1", "--guided",
        "--opponents", "bot:random", "--server", "arena", "--set", "servers=2",
        "--set", "threads=1",
        "--executor", "ray", "--set", f"address={cluster.address}", "--log-dir", str(tmp_path),
        "--experiment-name", "placed",
    ]  # fmt: skip
    records, log = RunFiles(tmp_path / "placed").metrics, tmp_path / "log"
    with log.open("w") as output:
        first = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        wait_until(lambda: first.poll() is not None or len(steps_in(records)) > 1, log)
        assert len({server.pid for server in servers_below(tmp_path)}) >= 2, log.read_text()
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    wait_until(lambda: not servers_below(tmp_path), log)
    again = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stdout + again.stderr
    assert steps_in(records) == [0, 1, 2, 3]
    assert not servers_below(tmp_path)


def steps_in(records: Path) -> list[int]:
    return [record.step for record in read_records(records)] if records.exists() else []


def test_a_cluster_without_room(
    cluster: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_servers, "SECONDS_TO_START", 0.5)
    monkeypatch.setattr(ray_servers, "START_SECONDS", 0.5)

    async def never(host: EmbeddedHost) -> None:
        raise AssertionError

    with pytest.raises(StopPlaying, match=r"no room .*servers=9.* of 3 cores free"):
        run(cluster, Table(tmp_path, model), never, servers=9)
    assert not ray.is_initialized()


def test_a_node_without_the_folder_of_the_run(cluster: Any, tmp_path: Path) -> None:
    placement = ray_servers.ClusterPlacement(1, cluster.address)
    server = ray_servers.PlacedServer(placement, 0, "--server arena", 0, tmp_path / "no/log")
    try:
        with pytest.raises(UsageError, match=f"does not see {tmp_path / 'no'}"):
            server.place()
    finally:
        server.stop()
    assert not ray.is_initialized()
