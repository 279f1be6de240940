"""Games on a Ray cluster (`make test-ray`): the results of one process, through lost nodes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from scripted_table import quick
from test_executors import SPECS, exhaust_memory_once, fail, play_seed, reply, timeless

from arena.core.errors import ArenaError
from arena.episodes.job import make_executor
from arena.episodes.pool import MAX_LOSSES
from arena.llm.service import LLMService
from backends.scripted import ScriptedBackend
from trainers.weight_sync.server_process import free_port

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray
SEEDS = range(12)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of a head without cores and two nodes of one core each."""
    from ray.cluster_utils import Cluster

    import_tests_in_workers()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


@contextmanager
def one_node(system: dict[str, float], **options: int) -> Iterator[str]:
    """A cluster of one node of two cores; yields its address."""
    from ray.cluster_utils import Cluster

    import_tests_in_workers()
    node = {"num_cpus": 2, "_system_config": system, **options}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def import_tests_in_workers() -> None:
    """Let workers import the work, which is defined in tests."""
    folders = [str(Path(__file__).parents[1] / name) for name in ("episodes", "support", "..")]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)


def make_service() -> LLMService:
    llm = LLMService(quick(max_retries=1, patience=60.0, breaker_failures=10_000), notify=print)
    llm.add(SPECS[0], ScriptedBackend(reply))
    return llm


async def local_games() -> list[list[object]]:
    async with make_service() as llm, make_executor("local", llm=llm) as executor:
        return [timeless(await play_seed(executor, seed)) for seed in SEEDS]


def test_the_games_are_those_of_one_process(cluster: Any) -> None:
    async def on_ray() -> tuple[list[list[object]], int]:
        async with (
            make_service() as llm,
            make_executor("ray", None, llm, cluster.address) as executor,
        ):
            assert executor.workers == 2
            work = [play_seed(executor, seed) for seed in SEEDS]
            games = [timeless(episode) for episode in await asyncio.gather(*work)]
            nodes = {await executor.compute(node_of_worker) for _ in range(20)}
            assert len(nodes) <= 2
            with pytest.raises(LookupError, match="no such thing"):
                await executor.compute(fail)
            # Played here, and measured there.
            await asyncio.gather(*(play_seed(executor, seed, SPECS) for seed in SEEDS))
            return games, llm.ledger.total().calls

    games, calls = asyncio.run(on_ray())
    assert games == asyncio.run(local_games())
    assert calls > len(SEEDS)
    assert not ray.is_initialized()


def node_of_worker() -> str:
    return str(ray.get_runtime_context().get_node_id())


def test_a_node_that_leaves_and_comes_back(cluster: Any) -> None:
    async def on_ray() -> list[list[object]]:
        node = cluster.add_node(num_cpus=1)
        async with make_executor("ray", 3, address=cluster.address) as executor:
            work = [play_seed(executor, seed) for seed in SEEDS]
            playing = asyncio.gather(*work)
            await asyncio.sleep(1)
            # In this thread: the nodes set handlers of signals.
            cluster.remove_node(node)
            node = cluster.add_node(num_cpus=1)
            games = [timeless(episode) for episode in await playing]
        cluster.remove_node(node)
        return games

    assert asyncio.run(on_ray()) == asyncio.run(local_games())


def test_the_games_of_a_worker_without_memory_are_played_again(
    cluster: Any, tmp_path: Path
) -> None:
    async def on_ray() -> list[object]:
        async with make_executor("ray", 1, address=cluster.address) as executor:
            return timeless(await executor.compute(partial(exhaust_memory_once, tmp_path, 0)))

    assert asyncio.run(on_ray()) == asyncio.run(local_games())[0]


def test_a_game_that_ray_kills_for_its_memory_is_a_clear_error() -> None:
    """The monitor of Ray kills workers as soon as a node uses more than a share of its memory."""
    memory = psutil.virtual_memory()
    used, more = 1 - memory.available / memory.total, 2**31 / memory.total
    finished: list[int] = []

    async def on_ray(address: str) -> None:
        async with make_executor("ray", 1, address=address) as executor:
            for size in (1, 2, ENDLESS):
                finished.append(await executor.compute(partial(allocate, size), f"size {size}"))

    config = {"memory_usage_threshold": used + more, "memory_monitor_refresh_ms": 100}
    with one_node(config) as address, pytest.raises(ArenaError) as lost:
        asyncio.run(on_ray(address))
    assert finished == [1, 2]
    assert str(lost.value).startswith(
        f"{MAX_LOSSES} workers in turn were lost with size {ENDLESS} or work beside it, the last "
        "one out of memory: Ray's memory monitor has killed it; finished games are kept: run the "
        "command again"
    )


ENDLESS = 2**50
"""More bytes than there are: other programs may free some meanwhile."""


def allocate(size: int) -> int:
    """Use so many bytes, slowly enough for a monitor."""
    blocks = []
    for _ in range(size // 2**25):
        # Written, since the kernel gives no memory for pages of zeros.
        blocks.append(b"\x01" * 2**25)
        time.sleep(0.1)
    return size


def test_an_object_store_without_disk_is_a_clear_error() -> None:
    finished: list[int] = []

    async def on_ray(address: str) -> None:
        async with make_executor("ray", 1, address=address) as executor:
            for size in (10, 2**20):
                finished.append(len(await executor.compute(partial(bytes, size))))
            with pytest.raises(ArenaError, match="Ray cannot send work: the object store and the"):
                await executor.compute(partial(len, bytes(2 * STORE)))
            # The executor goes on.
            finished.append(len(await executor.compute(partial(bytes, 20))))
            await executor.compute(partial(bytes, 2 * STORE), "game 3")

    # To Ray, the disk is full.
    config = {"local_fs_capacity_threshold": 0.001, "local_fs_monitor_interval_ms": 100}
    with (
        one_node(config, object_store_memory=STORE) as address,
        pytest.raises(
            ArenaError,
            match="lost with game 3 or work beside it, the last one because the object store",
        ),
    ):
        asyncio.run(on_ray(address))
    assert finished == [10, 2**20, 20]


STORE = 80 * 2**20
"""About the least object store that Ray accepts, in bytes."""


def test_a_cluster_that_is_not_there_is_one_line() -> None:
    async def on_ray() -> None:
        async with make_executor("ray", 1, address="127.0.0.1:1"):
            pass

    with pytest.raises(ArenaError, match=r"cannot connect to a Ray cluster at 127.0.0.1:1"):
        asyncio.run(on_ray())


@pytest.fixture
def token_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a cluster that was started as the guide says, in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    program = str(Path(sys.executable).with_name("ray"))
    subprocess.run([program, "get-auth-token", "--generate"], check=True, timeout=120)
    port = free_port(0)
    command = [program, "start", "--head", f"--port={port}", "--num-cpus=1", "--block"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as head:
        try:
            assert head.stdout is not None
            line = next(line for line in head.stdout if "ray start --address=" in line)
            yield line.split("'")[1]
        finally:
            head.terminate()  # `--block` stops what it has started.
            head.wait(60)


def test_the_recipe_of_the_guide(
    token_cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(out: str) -> subprocess.CompletedProcess[str]:
        words = ["-m", "arena", "eval", "kuhn_poker", "--player", "bot:random", "--games", "2"]
        words += ["--executor", "ray", "--set", f"address={token_cluster}", "--out"]
        command = [sys.executable, *words, str(tmp_path / out)]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    with_token = play("with")
    assert with_token.returncode == 0, with_token.stderr
    monkeypatch.delenv("RAY_AUTH_MODE")
    without = play("without")
    assert without.returncode == 1
    assert "set RAY_AUTH_MODE=token here and copy ~/.ray/auth_token" in without.stderr
