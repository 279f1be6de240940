"""Atropos' trajectory API for tests, with the behaviour of `run-api` of atroposlib 0.4.0.

One difference keeps tests deterministic: a batch is formed when it is asked for, of the oldest
groups. The faults of `run-api` that a client meets are here too: it checks types only, waits for
ever for groups of another size, holds its first trainer, forgets one after an early group, and
fails with status 500 for an unknown environment and for numbers that are not JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

NO_TRAINER = {
    "status": "error",
    "message": "Trainer not registered. Call /register first.",
    "batch": [],
}


class TrajectoryQueue:
    """The queue; `app` serves it, and tests read the attributes."""

    def __init__(self) -> None:
        self.reset()
        get: dict[str, Callable[[Any], Any]] = {
            "/": lambda _: {"message": "AtroposLib API"},
            "/wandb_info": self._wandb_info,
            "/info": self._info,
            "/batch": self._batch,
            "/latest_example": lambda _: self.latest or {"tokens": []},
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
        self.latest: dict[str, Any] | None = None
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
            self.latest = group
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
