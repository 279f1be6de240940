"""Any OpenAI-compatible server: vLLM, llama.cpp, a gateway, `arena serve`, an ART backend.

http://HOST:PORT/v1#MODEL    (also https) without a model, the first one that the server lists;
                             ARENA_API_KEY is sent if it is set
art:MODEL                    the server at ART_WRAPPER_URL; ART_API_KEY or ARENA_API_KEY
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import httpx
from pydantic import BaseModel, Field, SecretStr, ValidationError

from arena.core.errors import BackendError, UsageError
from arena.core.text import size_text
from arena.llm.backend import BackendTraits, Completion, Request
from arena.llm.settings import Limits, Settings
from backends.openai_wire import (
    chat_request,
    longest_body,
    read_completion,
    with_bill,
)
from backends.provider_errors import parse_retry_after, safe_excerpt, status_error

MAX_LIST_BYTES = 16 << 20
"""A longer response is not a list of models."""
MAX_ERROR_BYTES = 1 << 16
"""Bytes of an error body that are searched for a message."""
ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=30)
"""Limits of each client. httpx searches all connections of a client at each request, in quadratic
time: with 256 calls in flight one client reaches thirty calls per second, one client per connection
more than a thousand."""


def _from_url(scheme: str, rest: str, settings: Settings) -> HTTPBackend:
    base, _, model = rest.partition("#")
    url = check_url(f"{scheme}:{base}")
    key = settings.secret("ARENA_API_KEY")
    return HTTPBackend(url, model, settings.service.limits(scheme), key)


http_backend = partial(_from_url, "http")
"""Returns the backend of a SPEC `http:…`; the argument is the rest, `//HOST:PORT/v1#MODEL`."""
https_backend = partial(_from_url, "https")
"""Returns the backend of a SPEC `https:…`, like `http_backend`."""


def art(model: str, settings: Settings) -> HTTPBackend:
    """Return the backend of a model, or of the first model, at ART_WRAPPER_URL."""
    base = settings.art_wrapper_url.rstrip("/")
    # ART gives the URL of the server, without the path of the API.
    base = base if base.endswith("/v1") else f"{base}/v1"
    return HTTPBackend(
        check_url(base),
        model,
        settings.service.limits("art"),
        settings.secret("ART_API_KEY", "ARENA_API_KEY"),
        hint="; ART_WRAPPER_URL sets the address, and `arena serve` starts a server there",
    )


def check_url(url: str) -> str:
    """Return the base URL. Raises UsageError.

    User and query are refused: they may contain a key, and the URL is stored in replays.
    """
    if "@" in url or "?" in url:  # First, so that no other error quotes it.
        scheme = url.partition(":")[0]
        raise UsageError(
            f"the {scheme} URL must not contain a key: set ARENA_API_KEY, in the environment or "
            "in .env"
        )
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError(f"'{url}' is not a URL: {error}") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise UsageError(f"'{url}' is not the URL of a server; write http://HOST:PORT/v1#MODEL")
    return url.rstrip("/")


@contextmanager
def usable_network() -> Iterator[None]:
    """Raise UsageError if no client can be made with the proxies and certificates of this user."""
    try:
        yield
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        raise UsageError(
            f"no connections can be made: {error}; check the variables ALL_PROXY, HTTP_PROXY, "
            "HTTPS_PROXY, NO_PROXY (an IPv6 address without brackets, no network), SSL_CERT_FILE "
            "and SSL_CERT_DIR"
        ) from error


class ModelCard(BaseModel):
    """A model in the answer of GET /models."""

    id: str
    parent: str | None = None
    """The base model of an adapter."""
    max_model_len: int | None = None
    owned_by: str = ""
    """`vllm`: the server is vLLM."""


class ModelList(BaseModel):
    """The answer of GET /models."""

    data: list[ModelCard] = Field(min_length=1)


class HTTPBackend:
    """One model of an OpenAI-compatible server.

    Args:
        url: Base URL, without a final slash.
        model: Name of the model; empty for the first one that the server lists.
        limits: Timeouts and the number of concurrent calls.
        key: API key, sent as a bearer token.
        hint: Text for the error if the server cannot be reached.
    """

    traits = BackendTraits(is_remote=True)

    def __init__(
        self,
        url: str,
        model: str,
        limits: Limits,
        key: SecretStr | None,
        hint: str = "",
    ) -> None:
        self.url = url
        self.model = model
        """Empty until the first call if the server chooses."""
        self.context_length: int | None = None
        self._key = key.get_secret_value().strip() if key else ""
        # An error of httpx could quote the key.
        if not self._key.isascii() or not self._key.isprintable():
            raise UsageError(f"the API key for {url} has characters that a header cannot contain")
        self._headers = {"accept": "application/json"}
        if self._key:
            self._headers["authorization"] = f"Bearer {self._key}"
        self._limits, self._hint = limits, hint
        timeout = httpx.Timeout(limits.read_timeout, connect=limits.connect_timeout)
        with usable_network():
            ssl_context = httpx.create_ssl_context()
            self._clients = [
                httpx.AsyncClient(verify=ssl_context, timeout=timeout, limits=ONE_CONNECTION)
                for _ in range(limits.concurrency)
            ]
        # Last in, first out: the client that was used last has a warm connection.
        self._idle_clients: asyncio.LifoQueue[httpx.AsyncClient] = asyncio.LifoQueue()
        for each in self._clients:
            self._idle_clients.put_nowait(each)
        # One query at a time; all other calls wait for its result.
        self._looking_up = asyncio.Lock()
        self._is_vllm: bool | None = None
        """None until the server's list of models says so."""

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def complete(self, request: Request) -> Completion:
        """Answer with the model of this backend."""
        return await self.complete_with(self.model or await self._choose_model(), request)

    async def complete_with(self, model: str, request: Request) -> Completion:
        """Answer with any model of this server."""
        if request.sampling.seed is not None and not await self._takes_seeds():
            request = replace(request, sampling=replace(request.sampling, seed=None))
        started = time.perf_counter()
        body, longest = chat_request(request, model), longest_body(request)
        raw = await self._fetch("POST", "/chat/completions", longest, json.dumps(body).encode())
        seconds = time.perf_counter() - started
        return read_completion(raw, self.url, model, seconds, self._key)

    async def models(self) -> list[ModelCard]:
        """Return the models that the server lists, at least one. Raises BackendError."""
        try:
            body = await self._fetch("GET", "/models", MAX_LIST_BYTES)
            return ModelList.model_validate_json(body).data
        except ValidationError:
            message = f"{self.url}/models lists no model; name one: {self.url}#MODEL"
        raise BackendError(message, "bad_response", retryable=True)

    async def _choose_model(self) -> str:
        """Return the first model that the server lists; concurrent calls share one query."""
        async with self._looking_up:
            if not self.model:  # Another call may have set it while this one waited.
                card = (await self.models())[0]
                self.model, self.context_length = card.id, card.max_model_len
                self._is_vllm = card.owned_by == "vllm"
        return self.model

    async def _takes_seeds(self) -> bool:
        """Return whether a request may have a seed. The server is asked once which one it is.

        vLLM makes a generator for each seed, which slows its batches down, and its builds for a CPU
        (0.32, 0.33) end with "CPU Generator does not use offset" if such a prompt comes in chunks.
        """
        async with self._looking_up:
            if self._is_vllm is None:
                try:
                    self._is_vllm = (await self.models())[0].owned_by == "vllm"
                except BackendError as error:
                    # Without a list of models it is not vLLM; a server that is down may be.
                    is_down = error.retryable and error.cause != "bad_response"
                    self._is_vllm = None if is_down else False
        return not self._is_vllm

    async def _fetch(
        self, method: str, path: str, longest: int, content: bytes | None = None
    ) -> bytes:
        """Return the body of a JSON response with status 200, of at most `longest` bytes.

        Raises BackendError, without the key, for any other.
        """
        headers = self._headers | ({"content-type": "application/json"} if content else {})
        url = self.url + path
        try:
            # httpx has timeouts per read and per connection only, so a slow server could send
            # one byte at a time; this limits the whole call.
            async with asyncio.timeout(self._limits.call_timeout):
                client = await self._idle_clients.get()
                try:
                    # Streaming, so that a body over the limit is not read to its end.
                    call = client.stream(method, url, content=content, headers=headers)
                    async with call as response:
                        return await self._read(response, longest)
                finally:
                    self._idle_clients.put_nowait(client)
        except (TimeoutError, httpx.TimeoutException) as error:
            failure = self._timeout_error(error)
        except httpx.RequestError as error:
            failure = self._request_error(error)
        raise failure  # Outside any `except`: httpx's exceptions hold the request with its key.

    async def _read(self, response: httpx.Response, longest: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            chunks.append(chunk)
            size += len(chunk)
            if size > longest:  # A Content-Length header may be missing or wrong.
                raise self._bad_response(f"answered more than {size_text(longest)}")
        raw = b"".join(chunks)
        if response.status_code != 200:
            text = raw[:MAX_ERROR_BYTES].decode(errors="replace")
            wait = parse_retry_after(response.headers.get("retry-after"))
            error = status_error(response.status_code, text, self.url, wait, self._key)
            raise with_bill(error, raw)
        content_type = response.headers.get("content-type", "json")
        if "json" not in content_type.lower():
            raise self._bad_response(f"answered {content_type} instead of JSON")
        return raw

    def _bad_response(self, problem: str) -> BackendError:
        message = safe_excerpt(f"{self.url} {problem}", self._key)
        return BackendError(message, "bad_response", retryable=True)

    def _timeout_error(self, error: Exception) -> BackendError:
        limits = self._limits
        if isinstance(error, httpx.ConnectTimeout):
            problem = f"no connection within {limits.connect_timeout:g} s"
        elif isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
            problem = f"no data for {limits.read_timeout:g} s"
        else:
            problem = f"no response within {limits.call_timeout:g} s"
        return BackendError(f"{self.url}: {problem}", "timeout", retryable=True)

    def _request_error(self, error: httpx.RequestError) -> BackendError:
        reason = safe_excerpt(str(error), self._key) or type(error).__name__
        if isinstance(error, httpx.ConnectError):
            message = f"cannot connect to {self.url} ({reason}){self._hint}"
            return BackendError(message, "connection", retryable=True)
        if isinstance(error, httpx.DecodingError):
            return self._bad_response(f"answered with data that cannot be decoded ({reason})")
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
            return BackendError(f"{self.url}: {reason}", "bad_request")
        message = f"the connection to {self.url} broke ({reason})"
        return BackendError(message, "connection", retryable=True)
