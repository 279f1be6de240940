"""Connections of litellm, observed: what went over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp

from arena.core.text import size_text
from backends.litellm_client import load_litellm
from backends.provider_errors import parse_retry_after, to_one_line


@dataclass(slots=True)
class HTTPExchange:
    """Observations of the HTTP traffic of one call; litellm's errors are less precise."""

    longest: int = 16 << 20
    """Bytes of the longest body that is read."""
    status: int | None = None
    retry_after: float | None = None
    """Seconds."""
    connection_error: str = ""
    invalid_content: str = ""
    """The reason why a response with status 200 cannot be a completion."""
    body: aiohttp.StreamReader | None = None
    received: bytearray = field(default_factory=bytearray)
    """The body, as far as it was read."""

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
        if exchange.invalid_content:
            response.close()
            raise aiohttp.ClientPayloadError(exchange.invalid_content)
    # litellm reads a body through this attribute, in chunks.
    response.content = _BoundedBody(response.content, exchange)  # type: ignore[assignment]
    return response


class _BoundedBody:
    """Body of a response that raises an error when more bytes arrive than an answer may have."""

    def __init__(self, body: aiohttp.StreamReader, exchange: HTTPExchange) -> None:
        self._body = body
        self._exchange = exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        async for chunk in self._body.iter_chunked(size):
            if self._body.total_bytes > self._exchange.longest:
                self._exchange.invalid_content = f"more than {size_text(self._exchange.longest)}"
                raise aiohttp.ClientPayloadError(self._exchange.invalid_content)
            self._exchange.received += chunk
            yield chunk


@dataclass(slots=True)
class Connections:
    """Connections of all litellm backends of one event loop.

    litellm caches its clients by provider for the whole process, so the backends must share them.
    """

    session: aiohttp.ClientSession
    client: Any
    """litellm's client for this session, for the providers that accept one."""
    users: set[int] = field(default_factory=set)

    def serve_responses(self) -> None:
        """Put these connections where litellm's Responses API looks for a client.

        litellm uses it for models of OpenAI that have no other, and for functions of some that
        think. It accepts neither a session nor a client, and its cache forgets clients after an
        hour.
        """
        import_module("litellm.llms.custom_httpx.http_handler").get_async_httpx_client(
            llm_provider=load_litellm().LlmProviders.OPENAI,
            params={"ssl_verify": None},
            shared_session=self.session,
        )


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
