"""The ASGI application: routes and middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from arena.core.errors import ArenaError
from backends.server.access import (
    AccessControl,
    handle_error,
    handle_internal_error,
    read_body,
)
from backends.server.completions import CompletionEndpoints
from backends.server.metrics import MetricsMiddleware, ServerMetrics
from backends.server.models import ModelEndpoints
from backends.server.schemas import (
    AnyBody,
    ChatBody,
    LegacyBody,
    LoadAdapterBody,
    TextBody,
    UnloadAdapterBody,
    parse_body,
)
from backends.server.uvicorn_server import ShutdownResponder

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr
    from starlette.types import ASGIApp

    from backends.embedded.sampler import Sampler


def make_app(
    sampler: Sampler,
    *,
    key: SecretStr | None = None,
    lora_root: Path | None = None,
    max_body_bytes: int = 2_000_000,
    tokens_as_ids: bool = False,
) -> ASGIApp:
    """Return the application for one sampler, for uvicorn or for httpx's ASGI transport.

    Args:
        sampler: The sampler; the caller closes it.
        key: API key that clients must send.
        lora_root: Folder below which clients may load adapters.
        max_body_bytes: Longest body of a request.
        tokens_as_ids: Represent tokens as "token_id:123" unless a request chooses.
    """
    metrics = ServerMetrics(sampler.stats)
    completions = CompletionEndpoints(sampler, metrics, tokens_as_ids)
    models = ModelEndpoints(sampler, lora_root)

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def client_disconnected(_request: Request, _error: Exception) -> Response:
        return Response(status_code=499)  # For the metrics; the client does not read it.

    limit = max_body_bytes
    routes = [
        _post_route("/v1/chat/completions", ChatBody, completions.chat, limit),
        _post_route("/v1/completions", TextBody, completions.text, limit),
        _post_route("/v1/load_lora_adapter", LoadAdapterBody, models.load_adapter, limit),
        _post_route(
            "/v1/unload_lora_adapter", UnloadAdapterBody, models.unload_adapter, max_body_bytes
        ),
        _post_route("/llm_request", LegacyBody, completions.legacy, limit),
        Route("/v1/models", models.list_models),
        Route("/v1/models/{name:path}", models.show_model),
        Route("/health", health),
        Route("/ping", health, methods=["GET", "POST"]),
        Route("/metrics", metrics.page),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: handle_error,
            ArenaError: handle_error,
            ClientDisconnect: client_disconnected,
            Exception: handle_internal_error,
        },
    )
    # Metrics are outermost, so that they count refused requests too.
    guarded = ShutdownResponder(AccessControl(app, key))
    return MetricsMiddleware(guarded, metrics, {route.path for route in routes})


def _post_route(
    path: str,
    body_type: type[AnyBody],
    endpoint: Callable[[Request, AnyBody], Awaitable[Response]],
    max_body_bytes: int,
) -> Route:
    """Return a POST route that reads and checks its body before it calls the endpoint."""

    async def handle(request: Request) -> Response:
        return await endpoint(
            request, parse_body(body_type, await read_body(request, max_body_bytes))
        )

    return Route(path, handle, methods=["POST"])
