"""The trajectory API as an ASGI application: routes, errors and middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from backends.server.access import AccessControl, ApiError, BodyLimit
from backends.server.uvicorn_server import ShutdownResponder
from trainers.atropos.endpoints import TrajectoryEndpoints, busy
from trainers.atropos.store import StorageFull, TrajectoryStore

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.types import ASGIApp, Receive, Scope, Send

COMPRESSED_BYTES = 1000
"""Longer answers are compressed for clients that accept it."""
COMPRESSION_LEVEL = 3
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


class ForeignPageGuard:
    """ASGI middleware that refuses requests which a browser sends for another site's page.

    /batch and /reset_data change the state by GET, which a page may send as an image's address.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http":
            site = Request(scope).headers.get("sec-fetch-site", "none")
            if site not in {"none", "same-origin"}:
                app = ApiError(403, "requests from other web pages are not allowed").response
        await app(scope, receive, send)


def make_trajectory_app(
    store: TrajectoryStore,
    *,
    key: SecretStr | None = None,
    max_groups: int = 4096,
    max_body_bytes: int = 64_000_000,
) -> ASGIApp:
    """Return the application, for uvicorn or for httpx's ASGI transport.

    Args:
        store: The state; the caller closes it.
        key: Bearer token that clients must send.
        max_groups: Groups that may wait for a batch.
        max_body_bytes: Largest body, after decompression.
    """
    endpoints = TrajectoryEndpoints(store, max_groups, max_body_bytes)
    shown = HTTPException, StorageFull, ValidationError
    app = Starlette(routes=endpoints.routes(), exception_handlers=dict.fromkeys(shown, _show_error))
    compressed = GZipMiddleware(app, COMPRESSED_BYTES, COMPRESSION_LEVEL)
    limited = BodyLimit(compressed, BODIES_IN_PROGRESS * max_body_bytes)
    return ShutdownResponder(ForeignPageGuard(AccessControl(limited, key)))
