"""The trajectory API as an ASGI application (routes, errors, middleware) and as a process."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arena.http.access import AccessControl, BodyLimit
from arena.http.server import (
    ShutdownResponder,
    bind_socket,
    resolve_address,
    run_server,
    server_key,
    server_url,
)
from trainers.atropos.endpoints import TrajectoryEndpoints, busy
from trainers.atropos.store import StorageFull, TrajectoryStore

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.types import ASGIApp

COMPRESSED_BYTES = 1000
"""Longer answers are compressed for clients that accept it."""
COMPRESSION_LEVEL = 3
DRAIN_SECONDS = 10.0
"""Time limit for running requests after the first signal."""
BODIES_IN_PROGRESS = 4
"""Bodies of the largest size that may be read at the same time."""


def _fault(kind: str, message: str, location: tuple[int | str, ...] = ()) -> JsonValue:
    return {"type": kind, "loc": ["body", *location], "msg": message.removeprefix("Value error, ")}


async def _show_error(_request: Request, error: Exception) -> Response:
    """Return an error in FastAPI's format, which clients of the stock server know."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        # One is enough: a group with a systematic error has thousands.
        first = [_fault(fault["type"], fault["msg"], fault["loc"]) for fault in faults[:1]]
        return JSONResponse({"detail": first}, 422)
    if isinstance(error, StorageFull):
        error = busy(str(error))
    assert isinstance(error, HTTPException)
    detail: JsonValue = error.detail
    if error.status_code == 422:
        detail = [_fault("value_error", error.detail)]
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


def make_trajectory_app(
    store: TrajectoryStore,
    *,
    key: SecretStr | None = None,
    max_groups: int = 4096,
    max_body_bytes: int = 64_000_000,
) -> ASGIApp:
    """Return the application, for uvicorn or for httpx's ASGI transport.

    The caller closes the store. Clients must send `key` as a bearer token. At most `max_groups`
    groups may wait for a batch, and a body may have `max_body_bytes` after decompression.
    """
    endpoints = TrajectoryEndpoints(store, max_groups, max_body_bytes)
    shown = HTTPException, StorageFull, ValidationError
    app = Starlette(routes=endpoints.routes(), exception_handlers=dict.fromkeys(shown, _show_error))
    compressed = GZipMiddleware(app, COMPRESSED_BYTES, COMPRESSION_LEVEL)
    limited = BodyLimit(compressed, BODIES_IN_PROGRESS * max_body_bytes)
    # /batch and /reset_data change the state by GET, so another site's page must not even link.
    return ShutdownResponder(AccessControl(limited, key, allows_links=False))


def serve_trajectories(
    host: str, port: int, data: Path, *, max_groups: int, max_body_bytes: int
) -> int:
    """Serve until a signal and return the exit code: `arena atropos api`.

    The bearer token is the variable ARENA_API_KEY, from the environment or `.env`. `data` is the
    folder of the queue, which survives the process; the limits are those of `make_trajectory_app`.
    Raises ArenaError if the address or the folder cannot be used.
    """
    # Everything that can be refused is refused before anything is written.
    address = resolve_address(host)
    key = server_key(host, address)
    # Bound before the folder is opened: a port in use is reported first, and leaves no files.
    with bind_socket(address, port) as listener, closing(TrajectoryStore(data)) as store:
        app = make_trajectory_app(
            store, key=key, max_groups=max_groups, max_body_bytes=max_body_bytes
        )
        greeting = f"Trajectory API on {server_url(listener)} ({_summary(store)})"
        asyncio.run(run_server(app, listener, greeting, drain_seconds=DRAIN_SECONDS))
    return 0


def _summary(store: TrajectoryStore) -> str:
    """Return what the folder holds, so that an earlier run is noticed."""
    if store.run is None:
        return f"{store.path}: new"
    step, waiting = store.run.step, len(store.waiting)
    return f"{store.path}: a run at step {step} with {waiting} waiting groups"
