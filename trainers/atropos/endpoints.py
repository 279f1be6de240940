"""The 13 endpoints of the trajectory API as an ASGI application.

Paths, fields and answers are those of atroposlib 0.4.0, with these differences: bodies are checked
(422 with the field and the row), the queue is bounded (503 with Retry-After), a batch is formed
when it is asked for, in the order of arrival, and what would break the stock server is refused:
groups before a trainer or of an unknown environment, and a second trainer with other batches.
"""

from __future__ import annotations

import logging
import uuid
import zlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from arena.http.access import read_body
from trainers.atropos.packing import select_batch
from trainers.atropos.store import TrainerRun, TrajectoryStore, env_status, minimum_rows
from trainers.atropos.wire import (
    EnvReference,
    EnvRegistration,
    ScoredData,
    ServerInfo,
    TrainerRegistration,
    check_group,
)

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

LOG = logging.getLogger(__name__)
RETRY_SECONDS = "5"
"""A full queue empties when the trainer has finished a step."""

AnyWire = TypeVar("AnyWire")
Endpoint = Callable[[Request], Awaitable[Response]]


class TrajectoryEndpoints:
    """Answers of the API. They run in the event loop and never wait, so each is atomic.

    At most `max_groups` groups may wait for a batch. `max_body_bytes` counts after decompression.
    """

    def __init__(self, store: TrajectoryStore, max_groups: int, max_body_bytes: int) -> None:
        self._store = store
        self._max_groups = max_groups
        self._max_body_bytes = max_body_bytes
        self._in_delivery: set[int] = set()

    def routes(self) -> list[Route]:
        """Return all routes."""
        get: dict[str, Endpoint] = {
            "/": self.root, "/wandb_info": self.wandb_info, "/info": self.info,
            "/batch": self.batch, "/latest_example": self.latest_example, "/status": self.status,
            "/status-env": self.status_env, "/reset_data": self.reset_data,
        }  # fmt: skip
        post: dict[str, Endpoint] = {
            "/register": self.register, "/register-env": self.register_env,
            "/disconnect-env": self.disconnect_env, "/scored_data": self.scored_data,
            "/scored_data_list": self.scored_data_list,
        }  # fmt: skip
        routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in get.items()]
        for route in routes:
            # starlette adds HEAD, which would take a batch and drop it.
            route.methods = {"GET"}
        return routes + [Route(path, one, methods=["POST"]) for path, one in post.items()]

    async def root(self, _request: Request) -> Response:
        return JSONResponse({"message": "AtroposLib API"})

    async def register(self, request: Request) -> Response:
        """Register a trainer. After the first groups, only the same run may register again."""
        wanted = await self._body(request, TrainerRegistration)
        run = self._store.run
        if run is not None and self._store.is_in_use:
            _check_same_run(run, wanted)
            # Trainers cannot say whether they resume, so that a person must be able to notice.
            LOG.warning(
                "a trainer registered again and continues the run at step %d with %d groups; "
                "GET /reset_data starts a new one",
                run.step,
                len(self._store.waiting),
            )
        self._store.register(wanted)
        return JSONResponse({"uuid": uuid.uuid4().int})

    async def register_env(self, request: Request) -> Response:
        """Register an environment once the trainer has asked for its first batch."""
        wanted = await self._body(request, EnvRegistration)
        run = self._store.run
        if run is None or not run.started:
            return JSONResponse({"status": "wait for trainer to start"})
        self._check_divides(wanted.group_size, run, "group_size")
        # Names are counted over all registrations, ended ones too, so that no two are equal.
        others = [env.registration.desired_name for env in self._store.envs]
        env_id = self._store.add_env(wanted)
        trainer = run.registration
        return JSONResponse(
            {
                "status": "success",
                "env_id": env_id,
                "wandb_name": f"{wanted.desired_name}_{others.count(wanted.desired_name)}",
                "checkpoint_dir": trainer.checkpoint_dir,
                "starting_step": run.step,
                "checkpoint_interval": trainer.save_checkpoint_interval,
                "num_steps": trainer.num_steps,
            }
        )

    async def disconnect_env(self, request: Request) -> Response:
        """Mark an environment as ended, so that no batch waits for its minimum share."""
        env_id = (await self._body(request, EnvReference)).env_id
        # As the stock server: a failure is reported with status 200.
        if not self._is_known(env_id):
            return JSONResponse({"status": "failure", "error": f"env_id {env_id} is unknown"})
        self._store.disconnect(env_id)
        return JSONResponse({"status": "success"})

    async def wandb_info(self, _request: Request) -> Response:
        held = self._store.run.registration if self._store.run else None
        return JSONResponse(
            {
                "group": held.wandb_group if held else None,
                "project": held.wandb_project if held else None,
            }
        )

    async def info(self, _request: Request) -> Response:
        held = self._store.run.registration if self._store.run else None
        known = ServerInfo(
            batch_size=held.batch_size if held else -1,
            max_token_len=held.max_token_len if held else -1,
        )
        return _json(known)

    async def scored_data(self, request: Request) -> Response:
        """Queue one group."""
        self._push([await self._body(request, ScoredData)])
        return JSONResponse({"status": "received"})

    async def scored_data_list(self, request: Request) -> Response:
        """Queue several groups: all of them, or none."""
        groups = await self._body(request, list[ScoredData])
        self._push(groups)
        return JSONResponse({"status": "received", "groups_processed": len(groups)})

    def _push(self, groups: list[ScoredData]) -> None:
        run = self._store.run
        if run is None:
            raise HTTPException(409, "no trainer is registered: POST /register first")
        # All groups are checked before the first one is written.
        for place, group in enumerate(groups):
            try:
                self._check_group(group, run)
            except ValueError as error:
                prefix = f"group {place}: " if len(groups) > 1 else ""
                raise HTTPException(422, f"{prefix}{error}") from None
        # 503 and not 429: atroposlib's environments repeat a push after 5xx and drop it after 4xx.
        if len(self._store.waiting) + len(groups) > self._max_groups:
            raise busy(f"the queue holds {len(self._store.waiting)} of {self._max_groups} groups")
        self._store.push(groups)

    def _check_group(self, group: ScoredData, run: TrainerRun) -> None:
        registered = None
        if group.env_id is not None:
            if not self._is_known(group.env_id):
                raise ValueError(f"env_id: {group.env_id} is not registered here")
            registered = self._store.envs[group.env_id].registration.group_size
            self._store.heard_from(group.env_id)
        check_group(group, registered, run.registration.max_token_len)
        self._check_divides(group.size, run, "tokens: the number of rows")

    def _check_divides(self, size: int, run: TrainerRun, name: str) -> None:
        batch_size = run.registration.batch_size
        if batch_size % size:
            raise HTTPException(
                422,
                f"{name} {size} does not divide the trainer's batch_size {batch_size}: groups are "
                "never split, so no batch could be filled; change one of the two",
            )

    async def batch(self, request: Request) -> Response:
        """Return the oldest batch that no trainer has received, or null."""
        store = self._store
        if store.run is None:
            # With status 200, as the stock server answers; trainers look at the field.
            message = "Trainer not registered. Call /register first."
            return JSONResponse({"status": "error", "message": message, "batch": []})
        # Read to its end, so that the next message can only be the end of the connection.
        await request.body()
        store.start()
        batch = next((one for one in store.undelivered if one not in self._in_delivery), None)
        if batch is None:
            size = store.run.registration.batch_size
            groups = select_batch(store.waiting, size, minimum_rows(store))
            if groups is None:
                return JSONResponse({"batch": None})
            batch = store.form_batch(groups)
        return BatchResponse(store, batch, self._in_delivery, request)

    async def latest_example(self, _request: Request) -> Response:
        latest = self._store.latest()
        if latest is not None:
            return Response(latest, media_type="application/json")
        # The stock server's answer before the first group.
        names = "tokens masks scores advantages ref_logprobs generation_params inference_logprobs"
        return JSONResponse({name: [] for name in [*names.split(), "messages", "images"]})

    async def status(self, _request: Request) -> Response:
        run = self._store.run
        step = run.step if run else 0
        return JSONResponse({"current_step": step, "queue_size": len(self._store.waiting)})

    async def status_env(self, request: Request) -> Response:
        """Return the queue in units of one environment's groups."""
        env_id = (await self._body(request, EnvReference)).env_id
        if not self._is_known(env_id):
            raise HTTPException(404, f"env_id {env_id} is not registered here: POST /register-env")
        self._store.heard_from(env_id)
        return _json(env_status(self._store, env_id))

    async def reset_data(self, _request: Request) -> Response:
        self._store.reset()
        return PlainTextResponse("Reset successful")

    def _is_known(self, env_id: int) -> bool:
        return 0 <= env_id < len(self._store.envs)

    async def _body(self, request: Request, kind: type[AnyWire]) -> AnyWire:
        """Return the body as a model. Raises HTTPException or ValidationError."""
        body = await read_body(request, self._max_body_bytes)
        # The limit holds before and after decompression: a small body may expand a thousandfold.
        if "gzip" in request.headers.get("content-encoding", "").lower():
            body = _decompress(body, self._max_body_bytes)
        return TypeAdapter(kind).validate_json(body)


def _check_same_run(run: TrainerRun, wanted: TrainerRegistration) -> None:
    """Raise HTTPException if a trainer asks for another run than the one that is held."""
    # Groups were checked against the sizes; another name is another run, whose weights have not
    # played the groups in the queue.
    for name in ("batch_size", "max_token_len", "wandb_group", "wandb_project"):
        ours, theirs = getattr(run.registration, name), getattr(wanted, name)
        if ours != theirs:
            raise HTTPException(
                409,
                f"{name} {theirs}: this server still holds a run with {name} {ours}, at step "
                f"{run.step}; GET /reset_data discards it, or choose another --data",
            )


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


def busy(reason: str) -> HTTPException:
    """Return the error that asks a client to push again later."""
    headers = {"Retry-After": RETRY_SECONDS}
    return HTTPException(503, f"{reason}; push again later", headers)


def _decompress(body: bytes, limit: int) -> bytes:
    """Return the content of a gzip body of at most `limit` bytes."""
    inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        content = inflate.decompress(body, limit + 1)
    except zlib.error as error:
        raise HTTPException(400, f"the body is not gzip: {error}") from None
    if len(content) > limit:
        raise HTTPException(413, f"the body is larger than {limit} bytes when decompressed")
    if not inflate.eof:
        raise HTTPException(400, "the gzip body is incomplete")
    return content


class BatchResponse(Response):
    """A batch, which counts as delivered once its rows were sent on a connection that is open."""

    def __init__(
        self, store: TrajectoryStore, batch: int, in_delivery: set[int], request: Request
    ) -> None:
        groups = ",".join(store.read_batch(batch))
        super().__init__(f'{{"batch":[{groups}]}}', media_type="application/json")
        # Without a length the client has read the answer only when its end is sent.
        del self.headers["content-length"]
        # From now on no other request gets this batch.
        in_delivery.add(batch)
        self._delivery = store, batch, in_delivery, request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        store, batch, in_delivery, request = self._delivery
        try:
            start = {"status": 200, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            body = {"body": bytes(self.body), "more_body": True}
            await send({"type": "http.response.body", **body})
            # Sending waits until the buffer for the body has drained: a client that stopped reading
            # holds the response here, before the batch counts as delivered.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            # Recorded before the end is sent: who has read the end never gets the batch again. A
            # reset may have removed the batch meanwhile.
            if not await request.is_disconnected() and batch in store.undelivered:
                store.delivered(batch)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            in_delivery.discard(batch)
