"""Servers of the trajectory API: the queue of tests, and the stock `run-api`."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from trajectory_queue import TrajectoryQueue

from trainers.atropos.client import TrajectoryClient

STOCK = "ARENA_ATROPOS_PYTHON"
"""Variable with the interpreter that has atroposlib 0.4.0; `make test-atropos` sets it."""
WITH_STOCK = [
    pytest.mark.atropos,
    pytest.mark.skipif(STOCK not in os.environ, reason=f"{STOCK} is not set"),
]
"""Marks of a test that needs the stock server."""
SERVERS = ["queue", pytest.param("stock", marks=WITH_STOCK)]
"""Parameters of a fixture with either server."""
PATIENCE = 60.0
"""Seconds until a server answers."""


@dataclass
class Api:
    """The trajectory API, in this process or at a URL."""

    url: str
    queue: TrajectoryQueue | None = None

    @property
    def own(self) -> TrajectoryQueue:
        assert self.queue is not None, "the queue of tests only"
        return self.queue

    def client(self, **options: Any) -> TrajectoryClient:
        """A client; the caller closes it."""
        transport = httpx.ASGITransport(self.queue.app) if self.queue else None
        return TrajectoryClient(self.url, transport=transport, **options)


def own_api() -> Api:
    """The queue of tests, in this process."""
    return Api("http://127.0.0.1", TrajectoryQueue())


def each_api(server: str) -> Iterator[Api]:
    """The queue of tests, or the stock server, for a fixture with the parameters SERVERS."""
    if server == "queue":
        yield own_api()
    else:
        with stock_api() as url:
            yield Api(url)


@contextmanager
def queue_api() -> Iterator[str]:
    """Serve a queue of tests on the loopback interface; its URL."""
    with serving(TrajectoryQueue().app) as url:
        yield url


@contextmanager
def stock_api() -> Iterator[str]:
    """Start `run-api` on the loopback interface; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(os.environ[STOCK]).absolute().with_name("run-api")
    process = subprocess.Popen(
        [program, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(url):
            assert process.poll() is None and time.monotonic() < deadline, "run-api did not start"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=PATIENCE).status_code == 200
    except httpx.TransportError:
        return False


def registration(**changes: Any) -> dict[str, Any]:
    """Body of POST /register."""
    return {
        "wandb_group": "group", "wandb_project": "project", "batch_size": 4, "max_token_len": 64,
        "checkpoint_dir": "checkpoints", "save_checkpoint_interval": 5, "starting_step": 0,
        "num_steps": 10,
    } | changes  # fmt: skip


def env_registration(**changes: Any) -> dict[str, Any]:
    """Body of POST /register-env."""
    return {
        "max_token_length": 64, "desired_name": "kuhn", "weight": 1.0, "group_size": 2,
    } | changes  # fmt: skip


def group(number: int, rows: int = 2, **changes: Any) -> dict[str, Any]:
    """A valid group; `number` makes it recognisable."""
    return {
        "tokens": [[number, 1, 2 + row] for row in range(rows)],
        "masks": [[-100, -100, 2 + row] for row in range(rows)],
        "scores": [float(row) for row in range(rows)],
        "inference_logprobs": [[1.0, 1.0, -0.5 - row] for row in range(rows)],
        "group_overrides": {"arena": {"seed": number, "policy_version": 3}},
        "env_id": 0,
    } | changes  # fmt: skip


@contextmanager
def serving(app: Any, **options: Any) -> Iterator[str]:
    """Serve an ASGI application of this process on the loopback interface; its URL.

    The options are those of uvicorn.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    given: dict[str, Any] = {"lifespan": "off", "log_level": "error", "ws": "none", **options}
    config = uvicorn.Config(app, **given)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
