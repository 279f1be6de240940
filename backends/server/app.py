"""The ASGI application: routes and middleware."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from backends.server.access import (
    AccessControl,
    ApiError,
    handle_api_error,
    handle_http_error,
    handle_internal_error,
    read_body,
)
from backends.server.adapters import AdapterLoader
from backends.server.completions import CompletionEndpoints
from backends.server.generation import ClientDisconnected
from backends.server.metrics import MetricsMiddleware, ServerMetrics
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
    from pydantic import JsonValue, SecretStr
    from starlette.types import ASGIApp

    from backends.embedded.sampler import Sampler


@dataclass(frozen=True, slots=True)
class AppOptions:
    """Options of the application."""

    key: SecretStr | None = None
    """API key that clients must send."""
    lora_root: Path | None = None
    """Folder below which clients may load adapters."""
    max_body_bytes: int = 2_000_000
    tokens_as_ids: bool = False
    """Represent tokens as "token_id:123" unless a request chooses."""


def make_app(sampler: Sampler, options: AppOptions) -> ASGIApp:
    """Return the application for one sampler, for uvicorn or for httpx's ASGI transport."""
    metrics = ServerMetrics(sampler.stats)
    completions = CompletionEndpoints(sampler, metrics, options.tokens_as_ids)
    adapters = AdapterLoader(sampler, options.lora_root)
    created = int(time.time())

    async def load_adapter(_request: Request, body: LoadAdapterBody) -> Response:
        return PlainTextResponse(await adapters.load(body))

    async def unload_adapter(_request: Request, body: UnloadAdapterBody) -> Response:
        return PlainTextResponse(await adapters.unload(body.lora_name))

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics_page(_request: Request) -> Response:
        return metrics.page

    async def list_models(_request: Request) -> Response:
        return JSONResponse({"object": "list", "data": model_cards(sampler, created)})

    async def show_model(request: Request) -> Response:
        name = request.path_params["name"]
        for card in model_cards(sampler, created):
            if card["id"] == name:
                return JSONResponse(card)
        message = f"The model `{name}` does not exist."
        raise ApiError(404, message, param="model", code="model_not_found")

    limit = options.max_body_bytes
    routes = [
        _post_route("/v1/chat/completions", ChatBody, completions.chat, limit),
        _post_route("/v1/completions", TextBody, completions.text, limit),
        _post_route("/v1/load_lora_adapter", LoadAdapterBody, load_adapter, limit),
        _post_route("/v1/unload_lora_adapter", UnloadAdapterBody, unload_adapter, limit),
        _post_route("/llm_request", LegacyBody, completions.legacy, limit),
        Route("/v1/models", list_models),
        Route("/v1/models/{name:path}", show_model),
        Route("/health", health),
        Route("/metrics", metrics_page),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            ApiError: handle_api_error,
            HTTPException: handle_http_error,
            Exception: handle_internal_error,
        },
    )
    # Metrics are outermost, so that they count refused requests too.
    guarded = ShutdownResponder(AccessControl(app, options.key))
    return MetricsMiddleware(guarded, metrics, {route.path for route in routes})


def _post_route(
    path: str,
    body_type: type[AnyBody],
    endpoint: Callable[[Request, AnyBody], Awaitable[Response]],
    max_body_bytes: int,
) -> Route:
    """Return a POST route that reads and checks its body before it calls the endpoint."""

    async def handle(request: Request) -> Response:
        body = parse_body(body_type, await read_body(request, max_body_bytes))
        try:
            return await endpoint(request, body)
        except ClientDisconnected:
            return Response(status_code=499)  # For the metrics; the client does not read it.

    return Route(path, handle, methods=["POST"])


def model_cards(sampler: Sampler, created: int) -> list[dict[str, JsonValue]]:
    """Return the base model and its adapters, in vLLM's format of `/v1/models`."""
    card: dict[str, JsonValue] = {"object": "model", "created": created, "owned_by": "arena"}
    base = card | {"id": sampler.name, "parent": None, "max_model_len": sampler.context_length}
    return [base, *(card | {"id": name, "parent": sampler.name} for name in sampler.adapters)]
