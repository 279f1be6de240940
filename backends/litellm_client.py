"""litellm as a library: imported late and without output, on connections that are observed."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp

from backends.provider_errors import parse_retry_after, to_one_line

MAX_BODY_BYTES = 16 << 20
"""A response that announces a longer body is not read."""


@cache
def load_litellm() -> Any:
    """Import litellm without output, network access, telemetry or loading of `.env` files."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    mode = os.environ.get("LITELLM_MODE")
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # The other mode loads `.env` into the process.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm: Any = import_module("litellm")
    finally:
        del os.environ["LITELLM_MODE"]
        if mode is not None:
            os.environ["LITELLM_MODE"] = mode
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = True
    litellm.num_retries = 0
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        # Its log contains requests with their headers; our errors report the problems.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    _skip_unused_callbacks(litellm)
    return litellm


def _skip_unused_callbacks(litellm: Any) -> None:
    """Run litellm's logging after a response only if a callback is registered.

    Without a callback it takes a quarter of the time of a call, warns about its own classes, and
    leaves coroutines that are never awaited when the event loop ends.
    """
    # This module, which calls to Gemini import, makes a cache of its own and registers "cache" for
    # it, so that every later call would be logged in a thread.
    import_module("litellm.llms.vertex_ai.context_caching.vertex_ai_context_caching")
    for registered in (
        litellm.input_callback,
        litellm.success_callback,
        litellm._async_success_callback,
    ):
        if "cache" in registered and litellm.cache is None:
            registered.remove("cache")
    worker = import_module("litellm.litellm_core_utils.logging_worker").GLOBAL_LOGGING_WORKER
    enqueue = worker.ensure_initialized_and_enqueue

    def enqueue_if_used(async_coroutine: Coroutine[Any, Any, None]) -> None:
        if litellm.callbacks or litellm.success_callback or litellm.failure_callback:
            enqueue(async_coroutine=async_coroutine)
        else:
            async_coroutine.close()

    worker.ensure_initialized_and_enqueue = enqueue_if_used


@dataclass(slots=True)
class HTTPExchange:
    """Observations of the HTTP traffic of one call; litellm's errors are less precise."""

    status: int | None = None
    retry_after: float | None = None
    """Seconds."""
    connection_error: str = ""
    invalid_content: str = ""
    """The reason why a response with status 200 cannot be a completion."""
    body: aiohttp.StreamReader | None = None

    @property
    def is_truncated(self) -> bool:
        """Return whether the body ended too early; litellm would take it as complete."""
        # Each closed body has some exception; this class means that it ended too early.
        return self.body is not None and isinstance(
            self.body.exception(), aiohttp.ClientPayloadError
        )


current_exchange: ContextVar[HTTPExchange | None] = ContextVar("current_exchange", default=None)


async def _observe(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Record an exchange (aiohttp middleware), and prevent litellm's own second request."""
    exchange = current_exchange.get() or HTTPExchange()
    try:
        response = await send(request)
    except aiohttp.ClientConnectionError as error:
        if isinstance(error, TimeoutError):
            raise
        exchange.connection_error = to_one_line(str(error)) or type(error).__name__
        # After a ClientOSError litellm sends the request again, which may be billed too.
        raise aiohttp.ClientConnectionError(exchange.connection_error) from None
    exchange.status, exchange.body = response.status, response.content
    exchange.retry_after = parse_retry_after(response.headers.get("retry-after"))
    if response.status == 200:
        content_type = response.headers.get("content-type", "application/json")
        if "json" not in content_type.lower():
            exchange.invalid_content = f"{to_one_line(content_type)} instead of JSON"
        elif (response.content_length or 0) > MAX_BODY_BYTES:
            exchange.invalid_content = f"more than {MAX_BODY_BYTES >> 20} MB"
        if exchange.invalid_content:
            response.close()
            raise aiohttp.ClientPayloadError(exchange.invalid_content)
    return response


@dataclass(slots=True)
class Connections:
    """Connections of all litellm backends of one event loop.

    litellm caches its clients by provider for the whole process, so the backends must share them.
    """

    session: aiohttp.ClientSession
    client: Any
    """litellm's client for this session, for the providers that accept one."""
    users: set[int] = field(default_factory=set)


_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, Connections] = WeakKeyDictionary()
ROUTES_WITH_CLIENT = {"openrouter", "anthropic", "gemini"}
"""Routes of litellm that accept a client for each call; the others accept a session."""


def connect(user: int) -> Connections:
    """Return the connections of the running event loop; the first user opens them."""
    loop = asyncio.get_running_loop()
    connections = _connections.get(loop)
    if connections is None or connections.session.closed:
        litellm = load_litellm()
        # The cached clients belong to the session of another event loop.
        litellm.in_memory_llm_clients_cache.flush_cache()
        # No limit: `LLMService` limits the number of calls.
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)
        session = aiohttp.ClientSession(connector=connector, middlewares=(_observe,))
        http_handler = import_module("litellm.llms.custom_httpx.http_handler")
        client = http_handler.AsyncHTTPHandler(shared_session=session)
        connections = _connections[loop] = Connections(session, client)
    connections.users.add(user)
    return connections


async def disconnect(user: int) -> None:
    """Release the connections of the running event loop; the last user closes them."""
    loop = asyncio.get_running_loop()
    connections = _connections.get(loop)
    if connections is None or user not in connections.users:
        return
    connections.users.discard(user)
    if not connections.users:
        del _connections[loop]
        load_litellm().in_memory_llm_clients_cache.flush_cache()
        await connections.client.close()
        await connections.session.close()
