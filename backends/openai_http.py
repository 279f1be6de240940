"""Any OpenAI-compatible server: vLLM, llama.cpp, a gateway, `arena serve`, an ART backend.

http://HOST:PORT/v1#MODEL    (https too) the model is the server's first if none is named;
                             ARENA_API_KEY is sent if it is set
art:MODEL                    the server at ART_WRAPPER_URL; ART_API_KEY or ARENA_API_KEY
"""

from __future__ import annotations

import asyncio
import json
import time

import httpx
from pydantic import BaseModel, Field, SecretStr, ValidationError

from arena.core.errors import BackendError, UsageError
from arena.llm.backend import Completion, Request
from arena.llm.settings import Limits, Settings
from backends.openai_wire import (
    chat_request,
    failure,
    one_line,
    read_completion,
    retry_after,
    said_in,
    shortened,
    versioned,
    without,
)

MAX_BODY = 16 << 20
"""Bytes of an answer; a longer one is no chat completion."""
ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=30)
"""httpx looks through all of a client's connections at each request, which takes quadratic time: at
256 in flight one client reaches thirty calls a second, a client each more than a thousand."""


def http_backend(model: str, settings: Settings) -> HTTPBackend:
    """`http:` in front of a SPEC; `model` is what stands behind it, `//HOST:PORT/v1#MODEL`."""
    return _from_url("http", model, settings)


def https_backend(model: str, settings: Settings) -> HTTPBackend:
    """`https:` in front of a SPEC, as `http_backend`."""
    return _from_url("https", model, settings)


def art(model: str, settings: Settings) -> HTTPBackend:
    """The model of this name, or the first one, of the server at ART_WRAPPER_URL."""
    base = settings.art_wrapper_url.rstrip("/")
    base = base if base.endswith("/v1") else f"{base}/v1"
    return HTTPBackend(
        _checked_url(base),
        model,
        settings.service.limits("art"),
        settings.secret("ART_API_KEY", "ARENA_API_KEY"),
        hint="; ART_WRAPPER_URL says where to look, and `arena serve` starts a server there",
    )


def _from_url(scheme: str, rest: str, settings: Settings) -> HTTPBackend:
    base, _, model = rest.partition("#")
    url = _checked_url(f"{scheme}:{base}")
    key = settings.secret("ARENA_API_KEY")
    return HTTPBackend(url, model, settings.service.limits(scheme), key)


def _checked_url(url: str) -> str:
    """The base URL. A key in it would end up in replays, so it may hold no user and no query."""
    if "@" in url or "?" in url:
        place = url.partition(":")[0]
        raise UsageError(f"the {place} URL must hold no key: set ARENA_API_KEY, or put it in .env")
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError(f"'{url}' is no URL: {error}") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise UsageError(f"'{url}' is no URL of a server; write http://HOST:PORT/v1#MODEL")
    return url.rstrip("/")


class _Model(BaseModel):
    id: str
    max_model_len: int | None = None


class _Models(BaseModel):
    data: list[_Model] = Field(min_length=1)


class HTTPBackend:
    """One model of an OpenAI-compatible server."""

    def __init__(
        self, url: str, model: str, limits: Limits, key: SecretStr | None, *, hint: str = ""
    ) -> None:
        self.url = url
        self.model = model
        """Empty until the first call, if the server is to choose."""
        self.context_length: int | None = None
        self._limits = limits
        self._key = key.get_secret_value().strip() if key else ""
        if not self._key.isascii() or not self._key.isprintable():
            raise UsageError(f"the API key for {url} has characters that no header can hold")
        self._hint = hint
        self._clients = self._make_clients()
        self._free: asyncio.LifoQueue[httpx.AsyncClient] = asyncio.LifoQueue()
        for client in self._clients:  # The one used last is the warmest.
            self._free.put_nowait(client)
        self._choosing = asyncio.Lock()

    def _make_clients(self) -> list[httpx.AsyncClient]:
        limits = self._limits
        trusted = httpx.create_ssl_context()
        headers = {"accept": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        return [
            httpx.AsyncClient(
                headers=headers,
                verify=trusted,
                timeout=httpx.Timeout(limits.read_timeout, connect=limits.connect_timeout),
                limits=ONE_CONNECTION,
            )
            for _ in range(limits.concurrency)
        ]

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def complete(self, request: Request) -> Completion:
        model = versioned(self.model or await self._choose_model(), request.policy_version)
        return await self.complete_with(model, request)

    async def complete_with(self, model: str, request: Request) -> Completion:
        """The same with another model of this server."""
        started = time.perf_counter()
        raw = await self._fetch("POST", "/chat/completions", chat_request(request, model))
        seconds = time.perf_counter() - started
        return read_completion(raw, self.url, model, seconds, self._key)

    async def _choose_model(self) -> str:
        """The first model that the server lists; looked up once, however many calls wait for it."""
        async with self._choosing:
            if not self.model:
                raw = await self._fetch("GET", "/models")
                try:
                    first = _Models.model_validate_json(raw).data[0]
                except ValidationError:
                    first = None
                if first is None:
                    said = f"{self.url}/models lists no model; name one: {self.url}#MODEL"
                    raise BackendError(said, "bad_response", retryable=True)
                self.model, self.context_length = first.id, first.max_model_len
        return self.model

    async def _fetch(self, method: str, path: str, body: object = None) -> bytes:
        """The body of an answer with status 200. Raises BackendError for everything else."""
        fetched = await self._try_to_fetch(method, path, body)
        if isinstance(fetched, BackendError):
            # Not raised inside of an `except`: what httpx raised holds the request and its key.
            raise fetched
        return fetched

    async def _try_to_fetch(self, method: str, path: str, body: object) -> bytes | BackendError:
        try:
            async with asyncio.timeout(self._limits.call_timeout):
                client = await self._free.get()
                try:
                    return await self._exchange(client, method, path, body)
                finally:
                    self._free.put_nowait(client)
        except (TimeoutError, httpx.TimeoutException) as error:
            return self._timed_out(error)
        except httpx.RequestError as error:
            return self._broken(error)

    async def _exchange(
        self, client: httpx.AsyncClient, method: str, path: str, body: object
    ) -> bytes | BackendError:
        content = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} if content else {}
        request = client.build_request(method, self.url + path, content=content, headers=headers)
        response = await client.send(request, stream=True)
        try:
            return await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response) -> bytes | BackendError:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BODY:
                return self._bad(f"answered more than {MAX_BODY >> 20} MB")
        raw = b"".join(chunks)
        if response.status_code != 200:
            said = said_in(raw[: 1 << 16].decode(errors="replace"))
            wait = retry_after(response.headers.get("retry-after"))
            return failure(response.status_code, said, self.url, wait, self._key)
        kind = response.headers.get("content-type", "application/json")
        if "json" not in kind.lower():
            return self._bad(f"answered {kind} in place of JSON")
        return raw

    def _bad(self, what: str) -> BackendError:
        message = shortened(without(one_line(f"{self.url} {what}"), self._key))
        return BackendError(message, "bad_response", retryable=True)

    def _timed_out(self, error: Exception) -> BackendError:
        limits = self._limits
        if isinstance(error, httpx.ConnectTimeout):
            what = f"no connection within {limits.connect_timeout:g} s"
        elif isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
            what = f"nothing came for {limits.read_timeout:g} s"
        else:
            what = f"no answer within {limits.call_timeout:g} s"
        return BackendError(f"{self.url}: {what}", "timeout", retryable=True)

    def _broken(self, error: httpx.RequestError) -> BackendError:
        said = shortened(without(one_line(str(error)), self._key)) or type(error).__name__
        if isinstance(error, httpx.ConnectError):
            message = f"nothing answers at {self.url} ({said}){self._hint}"
            return BackendError(message, "connection", retryable=True)
        if isinstance(error, httpx.DecodingError):
            return self._bad(f"answered what cannot be decoded ({said})")
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
            return BackendError(f"{self.url}: {said}", "bad_request")
        message = f"the connection to {self.url} broke ({said})"
        return BackendError(message, "connection", retryable=True)
