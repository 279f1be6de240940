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
from arena.http.access import ApiError, Guard, read_body
from backends.server import ServeOptions
from backends.server.completions import CompletionEndpoints
from backends.server.models import LoadAdapterBody, ModelEndpoints, UnloadAdapterBody
from backends.server.responses import to_api_error
from backends.server.schemas import AnyBody, ChatBody, LegacyBody, TextBody, parse_body

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.types import ASGIApp

    from backends.embedded.sampler import Sampler


def make_app(
    sampler: Sampler, options: ServeOptions | None = None, *, key: SecretStr | None = None
) -> ASGIApp:
    """Return the application for one sampler, for uvicorn or for httpx's ASGI transport.

    The caller closes the sampler. Of the options, those about requests are used.
    """
    options = options or ServeOptions()
    models = ModelEndpoints(sampler, options.lora_root, options.max_adapters)
    completions = CompletionEndpoints(sampler, models, options.tokens_as_ids)

    def post(
        path: str, kind: type[AnyBody], answer: Callable[[Request, AnyBody], Awaitable[Response]]
    ) -> Route:
        """Return the route that reads and checks the body before it calls the endpoint."""

        async def handle(request: Request) -> Response:
            body = await read_body(request, options.max_body_bytes)
            return await answer(request, parse_body(kind, body))

        return Route(path, handle, methods=["POST"])

    app = Starlette(
        routes=[
            post("/v1/chat/completions", ChatBody, completions.chat),
            post("/v1/completions", TextBody, completions.text),
            post("/v1/load_lora_adapter", LoadAdapterBody, models.load_adapter),
            post("/v1/unload_lora_adapter", UnloadAdapterBody, models.unload_adapter),
            post("/llm_request", LegacyBody, completions.legacy),
            Route("/v1/models", models.list_models),
            Route("/health", _healthy),
        ],
        exception_handlers={
            HTTPException: _known_error,
            ArenaError: _known_error,
            ClientDisconnect: _client_disconnected,
            Exception: _unexpected_error,
        },
    )
    app.router.redirect_slashes = False  # A redirect would name the host that the client sent.
    # A request without a key uses no memory for its body.
    return Guard(app, key, options.max_queue_bytes)


async def _healthy(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _known_error(_request: Request, error: Exception) -> Response:
    return to_api_error(error).response


async def _unexpected_error(_request: Request, _error: Exception) -> Response:
    # Without details; the log has the traceback.
    return ApiError(500, "the server failed on this request; see its log").response


async def _client_disconnected(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # The client does not read it.
