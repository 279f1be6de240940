"""A loopback server with the wire API of W&B's serverless trainer, as ART 0.5.18 uses it.

    with WandbWire() as server:
        server.endings.append("training_failed")
        ...  # ServerlessBackend(api_key=KEY, base_url=server.url)
        assert server.jobs[0]["experimental_config"]["ppo"] is False

It registers models, stores checkpoints, accepts training jobs, reports their events, and answers
chats with the weights of a step as vLLM does: token ids, log-probabilities, the prompt's ids.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, Self

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from trajectory_servers import serving

KEY = "wandb-planted-0123456789abcdef"
ENTITY = "a-team"
ANSWER = ("suggest ", "Rope", "<|im_end|>")
"""The tokens of every answer."""
PAGE = 2
"""Rows of a list's page."""

Ending = Literal["training_ended", "training_failed", "unavailable", "lost"]
"""End of a job. `lost`: it is trained, but reports no events."""


class WandbWire:
    """The server, as a context manager. One model; its steps are in `steps`."""

    def __init__(self) -> None:
        self.model: dict[str, Any] = {}
        self.steps: set[int] = {0}
        self.jobs: list[dict[str, Any]] = []
        self.chats: list[dict[str, Any]] = []
        self.deleted: list[int] = []
        self.endings: deque[Ending] = deque()
        """Ends of the next jobs. Later jobs end with `training_ended`."""
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._serving = serving(self._app())

    def __enter__(self) -> Self:
        self.url = f"{self._serving.__enter__()}/v1"
        return self

    def __exit__(self, *raised: Any) -> None:
        self._serving.__exit__(*raised)

    def _app(self) -> Starlette:
        models, jobs = "/v1/preview/models", "/v1/preview/training-jobs"
        return Starlette(
            routes=[
                Route(models, self._register, methods=["POST"]),
                Route(f"{models}/model-1/checkpoints", self._list, methods=["GET"]),
                Route(f"{models}/model-1/checkpoints", self._delete, methods=["DELETE"]),
                Route(jobs, self._take_job, methods=["POST"]),
                Route(f"{jobs}/{{job}}/events", self._list_events, methods=["GET"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ]
        )

    async def _register(self, request: Request) -> JSONResponse:
        if request.headers["authorization"] != f"Bearer {KEY}":
            key = request.headers["authorization"].removeprefix("Bearer ")
            return _fault(401, f"the key {key} is not known")
        body = await request.json()
        assert body.pop("return_existing") is True
        self.model = {**body, "id": "model-1", "entity": body["entity"] or ENTITY, "run_id": None}
        return JSONResponse(self.model)

    async def _list(self, request: Request) -> JSONResponse:
        query = request.query_params
        rows = sorted(self.steps, reverse=query.get("order") == "desc")
        if after := query.get("after"):
            rows = rows[rows.index(int(after.removeprefix("checkpoint-"))) + 1 :]
        page = rows[: min(PAGE, int(query.get("limit", PAGE)))]
        data = [{"id": f"checkpoint-{step}", "step": step, "metrics": {}} for step in page]
        return JSONResponse({"data": data, "has_more": len(page) < len(rows)})

    async def _delete(self, request: Request) -> JSONResponse:
        steps = (await request.json())["steps"]
        self.deleted += steps
        missing = [step for step in steps if step not in self.steps]
        self.steps -= set(steps)
        return JSONResponse(
            {"deleted_count": len(steps) - len(missing), "not_found_steps": missing}
        )

    async def _take_job(self, request: Request) -> JSONResponse:
        ending = self.endings.popleft() if self.endings else "training_ended"
        if ending == "unavailable":
            return _fault(503, "no trainer is free", {"retry-after": "7"})
        body = await request.json()
        self.jobs.append(body)
        job = f"job-{len(self.jobs)}"
        if ending in {"training_ended", "lost"}:
            self.steps.add(max(self.steps) + 1)
        if ending != "lost":
            self._events[job] = _events(body, ending)
        return JSONResponse({"id": job})

    async def _list_events(self, request: Request) -> JSONResponse:
        """Return all events after `after`, without paging, as W&B does."""
        events = self._events.get(request.path_params["job"])
        if events is None:
            return _fault(404, "there is no such job")
        after = request.query_params.get("after")
        ids = [event["id"] for event in events]
        fresh = events[ids.index(after) + 1 :] if after else events
        return JSONResponse({"data": fresh, "has_more": False})

    async def _chat(self, request: Request) -> JSONResponse:
        body = await request.json()
        self.chats.append(body)
        path, _, step = body["model"].partition(":step")
        name = "wandb-artifact:///{entity}/{project}/{name}".format(**self.model)
        if path != name or (step and int(step) not in self.steps):
            return _fault(404, f"there is no model {body['model']}")
        content = [{"token": token, "logprob": -0.25 * at} for at, token in enumerate(ANSWER)]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(ANSWER[:-1])},
            "finish_reason": "stop",
            "logprobs": {"content": content},
            "token_ids": [7, 8, 9],
        }
        usage = {"prompt_tokens": 3, "completion_tokens": 3}
        answer = {"model": body["model"], "choices": [choice], "usage": usage}
        return JSONResponse({**answer, "prompt_token_ids": [1, 2, 3]})


def _events(job: dict[str, Any], ending: str) -> list[dict[str, Any]]:
    """The events of a job over its groups: one gradient step for each trajectory."""
    count = sum(len(group["trajectories"]) for group in job["trajectory_groups"])
    step = {"loss": 0.5, "grad_norm": 0.25, "entropy": 1.5}
    events: list[tuple[str, dict[str, Any]]] = [("training_started", {"num_sequences": count})]
    events += [("gradient_step", step)] * count
    why = {"error_message": "CUDA out of memory\n  at trainer.py"}
    events.append((ending, why if ending == "training_failed" else {}))
    return [{"id": f"event-{n}", "type": t, "data": data} for n, (t, data) in enumerate(events)]


def _fault(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"message": message}}, status, headers)
