"""The ASGI application: routes, and what stands in front of them."""

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

from backends.server.adapters import Adapters
from backends.server.completions import Completions
from backends.server.draining import CutShort
from backends.server.errors import ApiError, api_error, http_error, internal_error
from backends.server.generation import ClientGone
from backends.server.guard import Guard, read_body
from backends.server.legacy import LegacyBody, llm_request
from backends.server.metrics import Measured, Metrics
from backends.server.schemas import (
    AnyBody,
    ChatBody,
    LoadAdapterBody,
    TextBody,
    UnloadAdapterBody,
    parse_body,
)

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.types import ASGIApp

    from arena.core.json import Json
    from backends.embedded.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator decides about the application."""

    key: SecretStr | None = None
    lora_root: Path | None = None
    max_body_bytes: int = 2_000_000
    tokens_as_ids: bool = False


def make_app(sampler: Sampler, options: Options) -> ASGIApp:
    """The application for one sampler, ready for uvicorn or for httpx's ASGI transport."""
    metrics = Metrics(sampler.stats)
    completions = Completions(sampler, metrics, options.tokens_as_ids)
    adapters = Adapters(sampler, options.lora_root)
    created = int(time.time())

    async def load_adapter(_request: Request, body: LoadAdapterBody) -> Response:
        return PlainTextResponse(await adapters.load(body))

    async def unload_adapter(_request: Request, body: UnloadAdapterBody) -> Response:
        return PlainTextResponse(await adapters.unload(body.lora_name))

    async def legacy(request: Request, body: LegacyBody) -> Response:
        return await llm_request(completions, request, body)

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def page(_request: Request) -> Response:
        return metrics.page

    async def models(_request: Request) -> Response:
        return JSONResponse({"object": "list", "data": model_cards(sampler, created)})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        for card in model_cards(sampler, created):
            if card["id"] == name:
                return JSONResponse(card)
        message = f"The model `{name}` does not exist."
        raise ApiError(404, message, param="model", code="model_not_found")

    limit = options.max_body_bytes
    routes = [
        _post("/v1/chat/completions", ChatBody, completions.chat, limit),
        _post("/v1/completions", TextBody, completions.text, limit),
        _post("/v1/load_lora_adapter", LoadAdapterBody, load_adapter, limit),
        _post("/v1/unload_lora_adapter", UnloadAdapterBody, unload_adapter, limit),
        _post("/llm_request", LegacyBody, legacy, limit),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        Route("/health", health),
        Route("/metrics", page),
    ]
    inner = Starlette(
        routes=routes,
        exception_handlers={
            ApiError: api_error,
            HTTPException: http_error,
            Exception: internal_error,
        },
    )
    guarded = CutShort(Guard(inner, options.key))
    return Measured(guarded, metrics, {route.path for route in routes})


def _post(
    path: str,
    kind: type[AnyBody],
    answer: Callable[[Request, AnyBody], Awaitable[Response]],
    limit: int,
) -> Route:
    """A route that reads and checks its body before anything else happens."""

    async def endpoint(request: Request) -> Response:
        body = parse_body(kind, await read_body(request, limit))
        try:
            return await answer(request, body)
        except ClientGone:
            return Response(status_code=499)  # Nobody reads it; the metrics count it.

    return Route(path, endpoint, methods=["POST"])


def model_cards(sampler: Sampler, created: int) -> list[dict[str, Json]]:
    """The base model and its adapters, as vLLM lists them."""
    card = {"object": "model", "created": created, "owned_by": "arena"}
    base = card | {"id": sampler.name, "parent": None, "max_model_len": sampler.context_length}
    return [base, *(card | {"id": name, "parent": sampler.name} for name in sampler.adapters)]
