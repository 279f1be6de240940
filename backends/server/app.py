"""The ASGI application: routes, their description for OpenAPI, and middleware."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from pydantic.json_schema import models_json_schema
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from arena.core.errors import ArenaError
from arena.core.version import __version__
from arena.http.access import (
    AccessControl,
    BodyLimit,
    handle_error,
    handle_internal_error,
    read_body,
)
from arena.http.server import ShutdownResponder
from backends.server import ServeOptions
from backends.server.completions import CompletionEndpoints
from backends.server.generation import Generation
from backends.server.metrics import MetricsMiddleware, RequestLog, ServerMetrics
from backends.server.models import (
    LoadAdapterBody,
    LoadNewestBody,
    ModelEndpoints,
    UnloadAdapterBody,
    UnloadNewestBody,
)
from backends.server.schemas import (
    AnyBody,
    ChatBody,
    GenerateBody,
    LegacyBody,
    TextBody,
    parse_body,
)
from backends.server.tokenization import (
    DetokenizeBody,
    TokenizeBody,
    TokenizerEndpoints,
    Tokenizing,
)

if TYPE_CHECKING:
    from pydantic import JsonValue, SecretStr
    from starlette.types import ASGIApp

    from backends.embedded.sampler import Sampler


@dataclass(frozen=True, slots=True)
class PostEndpoint(Generic[AnyBody]):
    """An endpoint with a checked JSON body; its path and its body are documented by OpenAPI."""

    path: str
    body_type: type[AnyBody]
    answer: Callable[[Request, AnyBody], Awaitable[Response]]

    def route(self, max_body_bytes: int) -> Route:
        """Return the route that reads and checks the body before it calls the endpoint."""

        async def handle(request: Request) -> Response:
            body = await read_body(request, max_body_bytes)
            request.state.record.keep_body(body)
            return await self.answer(request, parse_body(self.body_type, body))

        return Route(self.path, handle, methods=["POST"])


def make_app(
    sampler: Sampler,
    options: ServeOptions | None = None,
    *,
    key: SecretStr | None = None,
    log: RequestLog | None = None,
) -> ASGIApp:
    """Return the application for one sampler, for uvicorn or for httpx's ASGI transport.

    The caller closes the sampler and the log. Of the options, those about requests are used.
    """
    options = options or ServeOptions()
    metrics = ServerMetrics(sampler.stats)
    models = ModelEndpoints(sampler, options.lora_root, options.max_adapters)
    generation, tokenizing = Generation(sampler, metrics, models), Tokenizing(sampler)
    completions = CompletionEndpoints(generation, tokenizing, options.tokens_as_ids)
    endpoints = _post_endpoints(completions, models)
    document = openapi_document(endpoints)
    routes = [
        *(endpoint.route(options.max_body_bytes) for endpoint in endpoints),
        Route("/v1/models", models.list_models),
        Route("/v1/models/{name:path}", models.show_model),
        Route("/lora/status", models.show_newest),
        Route("/health", _constant({"status": "ok"})),
        Route("/ping", _constant({"status": "ok"}), methods=["GET", "POST"]),
        Route("/version", _constant({"version": __version__})),
        Route("/openapi.json", _constant(document)),
        Route("/metrics", metrics.page),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: handle_error,
            ArenaError: handle_error,
            ClientDisconnect: _client_disconnected,
            Exception: handle_internal_error,
        },
    )
    # Metrics and log are outermost, so that they have refused requests too. A request without a
    # key uses no memory for its body.
    guarded = ShutdownResponder(AccessControl(BodyLimit(app, options.max_queue_bytes), key))
    return MetricsMiddleware(guarded, metrics, {route.path for route in routes}, log)


def _post_endpoints(
    completions: CompletionEndpoints, models: ModelEndpoints
) -> list[PostEndpoint[Any]]:
    generation, tokenizing = completions.generation, completions.tokenizing
    tokenizer = TokenizerEndpoints(generation, tokenizing)
    return [
        PostEndpoint("/v1/chat/completions", ChatBody, completions.chat),
        PostEndpoint("/v1/completions", TextBody, completions.text),
        PostEndpoint("/tokenize", TokenizeBody, tokenizer.tokenize),
        PostEndpoint("/detokenize", DetokenizeBody, tokenizer.detokenize),
        PostEndpoint("/v1/load_lora_adapter", LoadAdapterBody, models.load_adapter),
        PostEndpoint("/v1/unload_lora_adapter", UnloadAdapterBody, models.unload_adapter),
        PostEndpoint("/generate", GenerateBody, completions.generate),
        PostEndpoint("/lora/load", LoadNewestBody, models.load_newest),
        PostEndpoint("/lora/unload", UnloadNewestBody, models.unload_newest),
        PostEndpoint("/llm_request", LegacyBody, completions.legacy),
    ]


def _constant(answer: dict[str, JsonValue]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint whose answer is always the same."""

    async def show(_request: Request) -> Response:
        return JSONResponse(answer)

    return show


async def _client_disconnected(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # For the metrics; the client does not read it.


def openapi_document(endpoints: Sequence[PostEndpoint[Any]]) -> dict[str, JsonValue]:
    """Return the description of the endpoints in the format OpenAPI 3.1."""
    _, definitions = models_json_schema(
        [(endpoint.body_type, "validation") for endpoint in endpoints],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, JsonValue] = {}
    for endpoint in endpoints:
        schema: JsonValue = {"$ref": f"#/components/schemas/{endpoint.body_type.__name__}"}
        paths[endpoint.path] = {
            "post": {
                "summary": inspect.getdoc(endpoint.answer),
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": schema}},
                },
                "responses": {
                    "200": {"description": "The answer."},
                    "4XX": {"description": "An error in OpenAI's format."},
                },
            }
        }
    for path in ("/v1/models", "/lora/status", "/health", "/version", "/metrics"):
        paths[path] = {"get": {"responses": {"200": {"description": "The answer."}}}}
    bearer: JsonValue = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "arena serve", "version": __version__},
        "paths": paths,
        "components": {"schemas": definitions["$defs"], "securitySchemes": {"key": bearer}},
        "security": [{}, {"key": []}],
    }
