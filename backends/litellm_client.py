"""litellm as a library: imported late and without output, with connections that are observed.

Arguments of its `acompletion` that depend on the model: cache marks, thinking, schemas.
"""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp
from pydantic import JsonValue

from arena.core.text import size_text
from arena.llm.backend import Price, Request, Sampling
from arena.llm.settings import ModelOverride
from backends.openai_wire import tool_fields
from backends.provider_errors import parse_retry_after, to_one_line

READ_ONLY_REMARK = ".* using the `ReadOnly` qualifier"
"""Pydantic's warning about litellm's typed dictionaries."""


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
            _skip_unused_callbacks(litellm)
    finally:
        del os.environ["LITELLM_MODE"]
        if mode is not None:
            os.environ["LITELLM_MODE"] = mode
    # Newer versions import some of their classes at the first call, and pydantic remarks on them.
    warnings.filterwarnings("ignore", message=READ_ONLY_REMARK, category=UserWarning)
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = True
    litellm.num_retries = 0
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        # Its log contains requests with their headers; our errors report the problems.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
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


MAX_GUIDED_CHOICES = 100
"""More choices are not sent: providers limit the size of an enumeration in a schema."""
CACHE_MARK: JsonValue = {"type": "ephemeral"}
"""Anthropic's mark of the last message of a prefix to be cached."""
MARKED_ROUTES = {"anthropic", "openrouter"}
"""Routes that pass Claude's cache marks on; the other providers cache without being asked."""
BARE_ROUTES = {"openai", "anthropic", "cohere_chat"}
"""Routes whose models are in litellm's table without the route."""
OWN_ROUTES = {"google": "gemini", "cohere": "cohere_chat", "x-ai": "xai", "z-ai": "zai"}
"""litellm's routes by OpenRouter's names of makers, where they differ: where the table has no entry
of a router's model, the maker's own entry counts."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Description of a model by `[models."SPEC"]` in arena.toml and litellm's table of models."""

    name: str
    """litellm's name, with the route."""
    route: str
    parameters: frozenset[str]
    """OpenAI's names of the parameters that litellm passes on."""
    is_known: bool
    supports_schema: bool
    reasons: bool
    """The model can think."""
    reasons_unasked: bool
    context_length: int | None
    max_reply_tokens: int | None
    price: Price | None
    cached_prefix: int | None

    @classmethod
    def of(cls, name: str, route: str, override: ModelOverride | None = None) -> ModelInfo:
        """Look up a model; all of it is unknown for one that is in neither.

        litellm is given what arena.toml states, so that it computes costs with it.
        """
        litellm = load_litellm()
        # litellm lists some models with their route and others without it, and those of Anthropic
        # under its own names, "claude-sonnet-4-5" for OpenRouter's "claude-sonnet-4.5".
        _, *maker, last = name.split("/")
        own = OWN_ROUTES.get(maker[-1], maker[-1]) if maker else route
        names = (name, name.partition("/")[2], last, f"{own}/{last}", last.replace(".", "-"))
        prices = litellm.model_cost
        info: Mapping[str, Any] = next((prices[n] for n in names if n in prices), {})
        stated = _stated_facts(override) if override else {}
        facts = {**info, **stated}
        if stated:
            key = names[1] if route in BARE_ROUTES else name
            litellm.register_model({key: {"mode": "chat", **facts, "litellm_provider": route}})
        passed = litellm.get_supported_openai_params(names[1], custom_llm_provider=route)
        reasons = facts.get("supports_reasoning")
        if reasons is None:
            reasons = any(litellm.supports_reasoning(n) for n in names)
        return cls(
            name,
            route,
            frozenset(passed or ()),
            bool(facts),
            any(litellm.supports_response_schema(n) for n in names),
            reasons,
            reasons and _thinks_unasked(facts, name),
            _whole(facts.get("max_input_tokens")),
            _whole(facts.get("max_output_tokens")),
            _price(facts),
            _cached_prefix(facts, name, route),
        )

    @property
    def is_claude(self) -> bool:
        return "claude" in self.name

    @property
    def takes_thinking(self) -> bool:
        """False if the model is known and cannot think."""
        return self.reasons or not self.is_known or "reasoning_effort" in self.parameters


def _stated_facts(override: ModelOverride) -> dict[str, Any]:
    """Return the facts of a table of arena.toml, with the names of litellm's table."""
    price = override.price
    facts = {
        "input_cost_per_token": price and price.input,
        "output_cost_per_token": price and price.output,
        "cache_read_input_token_cost": price and price.cached,
        "max_input_tokens": override.context,
        "max_output_tokens": override.max_reply,
        "supports_reasoning": override.thinks,
        "thinking_always_on": override.thinks,
        "supports_function_calling": override.tools,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


def _thinks_unasked(facts: Mapping[str, Any], name: str) -> bool:
    """Return whether a model that can think does so unasked; Claude and some others do not."""
    always = facts.get("thinking_always_on")
    if always is not None or "claude" in name:
        return bool(always)
    return facts.get("default_reasoning_effort") != "none"


def _price(facts: Mapping[str, Any]) -> Price | None:
    """Return the price per token; None if it is unknown."""
    prompt, reply = facts.get("input_cost_per_token"), facts.get("output_cost_per_token")
    if prompt is None or reply is None:
        return None
    return Price(prompt, reply, facts.get("cache_read_input_token_cost"))


def _cached_prefix(facts: Mapping[str, Any], name: str, route: str) -> int | None:
    """Return the shortest prefix that is cached, of a model with a price of cached tokens."""
    is_cached = facts.get("cache_read_input_token_cost") is not None
    if not is_cached or ("claude" in name and route not in MARKED_ROUTES):
        return None
    return int(facts.get("prompt_cache_min_tokens") or 1024)


def model_arguments(model: ModelInfo, request: Request) -> dict[str, Any]:
    """Return the messages and the arguments whose form depends on the model."""
    return {
        "messages": _messages(model, request),
        **_thinking(model, request.sampling),
        **_tools(model, request),
        **_response_format(model, request),
    }


def _messages(model: ModelInfo, request: Request) -> list[dict[str, JsonValue]]:
    messages: list[dict[str, JsonValue]] = [
        {"role": message.role, "content": message.content} for message in request.messages
    ]
    if model.is_claude and model.route in MARKED_ROUTES and request.repeated:
        # The first mark covers the functions and the rules, which all games of a run share. The
        # second one covers the chat so far. A mark is found again only a limited number of
        # messages later, so one at the end alone would lose the rules.
        later = len(request.messages) - request.repeated
        for place in (0, len(messages) - 1 - later):
            messages[place]["cache_control"] = CACHE_MARK
    return messages


def _thinking(model: ModelInfo, sampling: Sampling) -> dict[str, Any]:
    """Return the thinking parameters in the form that the provider knows."""
    effort = sampling.reasoning_effort
    if not effort:
        return {}
    if model.route == "openrouter":  # Translates for all its providers.
        return {"reasoning": {"effort": effort}}
    if model.is_claude:
        if effort == "none":  # It thinks only if asked.
            return {}
        # litellm's budget for "minimal" is less than Claude accepts.
        effort = "low" if effort == "minimal" else effort
    # litellm drops parameters of models that it does not know, for example new ones.
    forced = {} if model.is_known else {"allowed_openai_params": ["reasoning_effort"]}
    return {"reasoning_effort": effort, **forced}


def _tools(model: ModelInfo, request: Request) -> dict[str, Any]:
    fields = tool_fields(request.tools)
    # Claude refuses to think if a call is required.
    if fields and model.is_claude and request.sampling.asks_to_think:
        fields["tool_choice"] = "auto"
    return fields


def _response_format(model: ModelInfo, request: Request) -> dict[str, Any]:
    """Return the JSON schema for the answer, if there is one and the model supports schemas."""
    schema: dict[str, Any] | None = request.guided_json
    if schema is None and 0 < len(request.guided_choice) <= MAX_GUIDED_CHOICES:
        schema = {
            "type": "object",
            "properties": {"action": {"type": "string", "enum": list(request.guided_choice)}},
            "required": ["action"],
            "additionalProperties": False,
        }
    if schema is None or not model.supports_schema:
        return {}
    # OpenAI accepts a schema as strict only if it requires all properties and no others.
    properties = set(schema.get("properties", {}))
    is_closed = schema.get("additionalProperties") is False
    is_strict = is_closed and set(schema.get("required", ())) == properties
    json_schema = {"name": "answer", "schema": schema, "strict": is_strict}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}
