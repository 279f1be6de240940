"""Servers of Atropos' trajectory API: the queue of tests, and atroposlib's own `run-api` 0.4.0."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

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
NO_TRAINER = {
    "status": "error",
    "message": "Trainer not registered. Call /register first.",
    "batch": [],
}


class TrajectoryQueue:
    """The queue with the behaviour of `run-api`; `app` serves it, and tests read the attributes.

    One difference keeps tests deterministic: a batch is formed when it is asked for, of the oldest
    groups. The faults of `run-api` that a client meets are here too: it checks types only, waits
    for ever for groups of another size, holds its first trainer, forgets one after an early group,
    and fails with status 500 for an unknown environment and for numbers that are not JSON.
    """

    def __init__(self) -> None:
        self.reset()
        get: dict[str, Callable[[Any], Any]] = {
            "/": lambda _: {"message": "AtroposLib API"},
            "/wandb_info": self._wandb_info,
            "/info": self._info,
            "/batch": self._batch,
            "/status": lambda _: {"current_step": self.step, "queue_size": len(self.waiting)},
            "/status-env": self._status_env,
            "/reset_data": self._reset_data,
        }
        post = {
            "/register": self._register,
            "/register-env": self._register_env,
            "/disconnect-env": self._disconnect_env,
            "/scored_data": lambda group: self._push([group]),
            "/scored_data_list": self._push,
        }
        routes = [Route(path, _endpoint(do), methods=["GET"]) for path, do in get.items()]
        routes += [Route(path, _endpoint(do), methods=["POST"]) for path, do in post.items()]
        self.app = Starlette(routes=routes)

    def reset(self) -> None:
        """Forget everything."""
        self.trainer: dict[str, Any] | None = None
        self.registrations = 0
        self.envs: list[dict[str, Any]] = []
        self.connected: list[bool] = []
        self.waiting: list[dict[str, Any]] = []
        self.step = 0
        self.has_started = False
        self._is_poisoned = False

    def _reset_data(self, _: Any) -> Response:
        self.reset()
        return PlainTextResponse("Reset successful")

    def _register(self, body: dict[str, Any]) -> Any:
        self.registrations += 1
        if self.trainer is None and not self._is_poisoned:
            self.trainer, self.step = body, body["starting_step"]
        return {"uuid": self.registrations}

    def _wandb_info(self, _: Any) -> Any:
        held = self.trainer or {}
        return {"group": held.get("wandb_group"), "project": held.get("wandb_project")}

    def _info(self, _: Any) -> Any:
        held = self.trainer or {"batch_size": -1, "max_token_len": -1}
        return {"batch_size": held["batch_size"], "max_token_len": held["max_token_len"]}

    def _register_env(self, body: dict[str, Any]) -> Any:
        if self.trainer is None or not self.has_started:
            return {"status": "wait for trainer to start"}
        self.envs.append(body)
        self.connected.append(True)
        number = len(self.envs) - 1
        return {
            "status": "success",
            "env_id": number,
            "wandb_name": f"{body['desired_name']}_{number}",
            "checkpoint_dir": self.trainer["checkpoint_dir"],
            "starting_step": self.step,
            "checkpoint_interval": self.trainer["save_checkpoint_interval"],
            "num_steps": self.trainer["num_steps"],
        }

    def _disconnect_env(self, body: dict[str, Any]) -> Any:
        self.connected[body["env_id"]] = False
        return {"status": "success"}

    def _status_env(self, body: dict[str, Any]) -> Any:
        size = self.envs[body["env_id"]]["group_size"]
        rows = sum(len(group["tokens"]) for group in self.waiting)
        return {"current_step": self.step, "queue_size": rows // size, "env_weight": 1.0}

    def _push(self, groups: list[dict[str, Any]]) -> Any:
        self._is_poisoned |= self.trainer is None
        for group in groups:
            number, size = group.get("env_id"), len(group["tokens"])
            registered = self.envs[number : number + 1] if number is not None else []
            if any(env["group_size"] != size for env in registered):
                return {"status": "received", "buffered": 1, "last_buffer_size": 1}
            self.waiting.append(group)
        return {"status": "received", "groups_processed": len(groups)}

    def _batch(self, _: Any) -> Any:
        if self.trainer is None:
            return NO_TRAINER
        self.has_started = True
        # Groups of one size at a time, as many as fill the batch.
        for size in {len(group["tokens"]): None for group in self.waiting}:
            own = [group for group in self.waiting if len(group["tokens"]) == size]
            number, rest = divmod(self.trainer["batch_size"], size)
            if not rest and len(own) >= number:
                batch = own[:number]
                self.waiting = [g for g in self.waiting if not any(g is one for one in batch)]
                self.step += 1
                return {"batch": batch}
        return {"batch": None}


def _endpoint(do: Callable[[Any], Any]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        body = await request.body()
        try:
            answer = do(json.loads(body) if body else None)
            return answer if isinstance(answer, Response) else JSONResponse(answer)
        except (LookupError, ValueError) as error:
            return PlainTextResponse(f"Internal Server Error: {error}", 500)

    return endpoint


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
def serving(app: Any, port: int = 0, **options: Any) -> Iterator[str]:
    """Serve an ASGI application of this process on the loopback interface; its URL.

    The options are those of uvicorn.
    """
    listener = socket.create_server(("127.0.0.1", port))
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
