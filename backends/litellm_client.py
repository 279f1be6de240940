"""litellm as a library among others: loaded late and quietly, on connections that we watch."""

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

from backends.openai_wire import one_line, retry_after

MAX_BODY = 16 << 20
"""Bytes of an answer, where the provider announces them; a longer one is not read."""


@cache
def load_litellm() -> Any:
    """The module, told to be quiet, to stay offline, and to leave `.env` files alone."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    mode = os.environ.get("LITELLM_MODE")
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # Its other mode loads a `.env` into the process.
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
        # Its log shows requests with their headers; what went wrong is told by our errors.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    _spare_the_bookkeeping(litellm)
    return litellm


def _spare_the_bookkeeping(litellm: Any) -> None:
    """Queue what litellm does after each answer only if somebody registered a callback for it.

    For nobody's sake it costs a quarter of a call, warns of its own classes, and leaves coroutines
    behind that are never awaited when the event loop ends.
    """
    worker = import_module("litellm.litellm_core_utils.logging_worker").GLOBAL_LOGGING_WORKER
    enqueue = worker.ensure_initialized_and_enqueue

    def enqueue_if_wanted(async_coroutine: Coroutine[Any, Any, None]) -> None:
        # Loading Gemini's part of litellm registers "cache", without a cache to keep.
        callbacks = {*litellm.callbacks, *litellm.success_callback, *litellm.failure_callback}
        if litellm.cache or callbacks - {"cache"}:
            enqueue(async_coroutine=async_coroutine)
        else:
            async_coroutine.close()

    worker.ensure_initialized_and_enqueue = enqueue_if_wanted


@dataclass(slots=True)
class Exchange:
    """What passed on the wire during one call; litellm's own errors tell that only roughly."""

    status: int | None = None
    wait: float | None = None
    broken: str = ""
    """How the connection broke."""
    unpromised: str = ""
    """What a provider sent with status 200 that can be no answer."""
    body: aiohttp.StreamReader | None = None

    @property
    def cut(self) -> bool:
        """The body did not come to its end; litellm takes what came for the whole."""
        # Any body that was let go holds some exception; this is the one of an early end.
        return self.body is not None and isinstance(
            self.body.exception(), aiohttp.ClientPayloadError
        )


exchange_of_call: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


async def _watch(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """An aiohttp middleware that notes what passes, and keeps litellm from sending twice."""
    exchange = exchange_of_call.get() or Exchange()
    try:
        response = await send(request)
    except aiohttp.ClientConnectionError as error:
        if isinstance(error, TimeoutError):
            raise
        exchange.broken = one_line(str(error)) or type(error).__name__
        # litellm answers a ClientOSError with a second request, which may be billed too.
        raise aiohttp.ClientConnectionError(exchange.broken) from None
    exchange.status, exchange.body = response.status, response.content
    exchange.wait = retry_after(response.headers.get("retry-after"))
    if response.status == 200:
        kind = response.headers.get("content-type", "application/json")
        if "json" not in kind.lower():
            exchange.unpromised = f"{one_line(kind)} in place of JSON"
        elif (response.content_length or 0) > MAX_BODY:
            exchange.unpromised = f"more than {MAX_BODY >> 20} MB"
        if exchange.unpromised:
            response.close()
            raise aiohttp.ClientPayloadError(exchange.unpromised)
    return response


@dataclass(slots=True)
class Connections:
    """The connections of all litellm backends of one event loop.

    litellm keeps its clients by provider, whoever asked for them, so they have to share.
    """

    session: aiohttp.ClientSession
    client: Any
    """litellm's own client on that session, for the providers that take one."""
    users: set[int] = field(default_factory=set)


_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, Connections] = WeakKeyDictionary()
TAKE_A_CLIENT = {"openrouter", "anthropic", "gemini"}
"""Routes that take the client of a call; the others take its session."""


def connect(user: int) -> Connections:
    """The connections of the running loop, opened for the first of their users."""
    loop = asyncio.get_running_loop()
    found = _connections.get(loop)
    if found is None or found.session.closed:
        litellm = load_litellm()
        litellm.in_memory_llm_clients_cache.flush_cache()  # They sit on another loop's session.
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)  # The service limits calls.
        session = aiohttp.ClientSession(connector=connector, middlewares=(_watch,))
        made = import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler
        found = _connections[loop] = Connections(session, made(shared_session=session))
    found.users.add(user)
    return found


async def disconnect(user: int) -> None:
    """Close them after the last of their users."""
    loop = asyncio.get_running_loop()
    found = _connections.get(loop)
    if found is None or user not in found.users:
        return
    found.users.discard(user)
    if not found.users:
        del _connections[loop]
        load_litellm().in_memory_llm_clients_cache.flush_cache()
        await found.client.close()
        await found.session.close()
