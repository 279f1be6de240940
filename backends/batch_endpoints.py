"""Batch endpoints of OpenAI and Anthropic: many requests in one upload, answered within a day.

litellm creates no batches of Anthropic, so both are spoken to directly. Bodies of requests and
responses are those that litellm writes and reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from arena.core.errors import BackendError
from arena.core.text import first_fault
from arena.llm.batches import BatchRefused, Responses, WireRequest, WireResponse
from arena.llm.settings import Limits
from backends.provider_errors import extract_message, parse_retry_after, safe_excerpt, status_error

MOST_BYTES = 1 << 30
"""Longest body of results that is read."""
SENT_HEADERS = (
    *("authorization", "x-api-key", "anthropic-version", "anthropic-beta"),
    *("openai-organization", "openai-project"),
)
"""Headers of a call that its batch needs."""
CLOCK_SKEW = 600.0
"""Seconds by which the clock of a provider may differ from ours."""
FIND_INTERVAL = 10.0
"""Seconds between two looks at a batch that may be the one that is searched."""


class _Identified(BaseModel):
    id: str


Answer = TypeVar("Answer", bound=BaseModel)


class HTTPBatches:
    """Base of the endpoints: requests with the address and the key of a call."""

    def __init__(self, limits: Limits, key: str) -> None:
        timeout = httpx.Timeout(limits.read_timeout, connect=limits.connect_timeout)
        self._client = httpx.AsyncClient(timeout=timeout)
        self._key = key

    async def close(self) -> None:
        await self._client.aclose()

    async def _fetch(self, method: str, url: str, like: WireRequest, **content: Any) -> bytes:
        """Return the body of a response with status 200. Raises BackendError otherwise."""
        headers = {name: like.headers[name] for name in SENT_HEADERS if name in like.headers}
        received = bytearray()
        try:
            async with self._client.stream(method, url, headers=headers, **content) as response:
                async for chunk in response.aiter_bytes():
                    received += chunk
                    if len(received) > MOST_BYTES:
                        raise self._broken(url, "answered too much")
        except httpx.HTTPError as error:
            reason = safe_excerpt(str(error), self._key) or type(error).__name__
            failure = BackendError(f"{url}: {reason}", "connection", retryable=True)
        else:
            if response.status_code == 200:
                return bytes(received)
            message = extract_message(received[: 1 << 16].decode(errors="replace"))
            wait = parse_retry_after(response.headers.get("retry-after"))
            failure = status_error(response.status_code, message, url, wait, self._key)
        raise failure  # Outside any `except`: httpx's exceptions hold the request with its key.

    async def _ask(
        self, kind: type[Answer], method: str, url: str, like: WireRequest, **content: Any
    ) -> Answer:
        """Return the parsed body of a response."""
        body = await self._fetch(method, url, like, **content)
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            failure = self._broken(url, f"is no batch endpoint: {first_fault(error, 'the body')}")
        raise failure

    def _broken(self, url: str, problem: str) -> BackendError:
        return BackendError(safe_excerpt(f"{url} {problem}", self._key), "bad_response")

    def _lines(self, url: str, body: bytes, kind: type[Answer]) -> Iterator[Answer]:
        """Yield the lines of a file of results."""
        for line in body.splitlines():
            try:
                parsed = kind.model_validate_json(line) if line.strip() else None
            except ValidationError as error:
                fault = first_fault(error, "a line")
                raise self._broken(url, f"has results of another form: {fault}") from None
            if parsed is not None:
                yield parsed


class _OpenAIFault(BaseModel):
    code: str | None = None
    message: str | None = None


class _OpenAIFaults(BaseModel):
    data: list[_OpenAIFault] = []


class _OpenAIBatch(_Identified):
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _OpenAIFaults | None = None
    metadata: dict[str, str] | None = None


class _OpenAIList(BaseModel):
    data: list[_OpenAIBatch]


class _OpenAIResponse(BaseModel):
    status_code: int
    body: JsonValue = None


class _OpenAILine(BaseModel):
    custom_id: str
    response: _OpenAIResponse | None = None
    error: _OpenAIFault | None = None


class OpenAIBatches(HTTPBatches):
    """OpenAI's `/v1/batches`: requests and responses are files of JSON lines."""

    async def submit(self, name: str, requests: Mapping[str, WireRequest]) -> str:
        like = next(iter(requests.values()))
        base, path = _split(like)
        lines = (
            b'{"custom_id": "%b", "method": "POST", "url": "%b", "body": %b}'
            % (key.encode(), path.encode(), wire.body)
            for key, wire in requests.items()
        )
        upload = {"file": ("arena.jsonl", b"\n".join(lines), "application/jsonl")}
        purpose = {"purpose": "batch"}
        file = await self._ask(
            _Identified, "POST", f"{base}/files", like, files=upload, data=purpose
        )
        batch = {
            "input_file_id": file.id,
            "endpoint": path,
            "completion_window": "24h",
            "metadata": {"arena": name},
        }
        return (await self._ask(_OpenAIBatch, "POST", f"{base}/batches", like, json=batch)).id

    async def find(
        self, name: str, keys: Collection[str], since: float, like: WireRequest
    ) -> str | None:
        # Among the newest ones.
        url = f"{_split(like)[0]}/batches?limit=100"
        listed = (await self._ask(_OpenAIList, "GET", url, like)).data
        return next((b.id for b in listed if (b.metadata or {}).get("arena") == name), None)

    async def results(self, batch: str, like: WireRequest) -> Responses | None:
        base, _ = _split(like)
        found = await self._ask(_OpenAIBatch, "GET", f"{base}/batches/{batch}", like)
        if found.status == "failed":
            faults = (found.errors or _OpenAIFaults()).data or [_OpenAIFault()]
            fault = f"{faults[0].message or found.status} ({faults[0].code})"
            raise BatchRefused(safe_excerpt(fault, self._key), "bad_request")
        if found.status not in {"completed", "expired", "cancelled"}:
            return None
        responses = Responses()
        for file in filter(None, (found.output_file_id, found.error_file_id)):
            url = f"{base}/files/{file}/content"
            for line in self._lines(url, await self._fetch("GET", url, like), _OpenAILine):
                # A request without a response was not tried, or not in time.
                answer = line.response or _OpenAIResponse(
                    status_code=503, body=line.model_dump(include={"error"})
                )
                body = json.dumps(answer.body).encode()
                responses[line.custom_id] = WireResponse(answer.status_code, body)
        return responses


class _AnthropicCounts(BaseModel):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def total(self) -> int:
        return self.processing + self.succeeded + self.errored + self.canceled + self.expired


class _AnthropicBatch(_Identified):
    processing_status: str
    request_counts: _AnthropicCounts = _AnthropicCounts()
    created_at: datetime


class _AnthropicList(BaseModel):
    data: list[_AnthropicBatch]


class _AnthropicResult(BaseModel):
    type: str
    message: JsonValue = None
    error: JsonValue = None


class _AnthropicLine(BaseModel):
    custom_id: str
    result: _AnthropicResult


STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""HTTP status by the type of an error; others are 500."""


class AnthropicBatches(HTTPBatches):
    """Anthropic's `/v1/messages/batches`."""

    async def submit(self, name: str, requests: Mapping[str, WireRequest]) -> str:
        like = next(iter(requests.values()))
        entries = (
            b'{"custom_id": "%b", "params": %b}' % (key.encode(), wire.body)
            for key, wire in requests.items()
        )
        body = b'{"requests": [%b]}' % b",".join(entries)
        return (await self._ask(_AnthropicBatch, "POST", _url(like), like, content=body)).id

    async def find(
        self, name: str, keys: Collection[str], since: float, like: WireRequest
    ) -> str | None:
        """Compare the keys of batches of this size and time: they have no name."""
        listed = await self._ask(_AnthropicList, "GET", f"{_url(like)}?limit=100", like)
        for batch in listed.data:
            is_later = batch.created_at.timestamp() > since - CLOCK_SKEW
            if not is_later or batch.request_counts.total != len(keys):
                continue
            while (responses := await self.results(batch.id, like)) is None:
                await asyncio.sleep(FIND_INTERVAL)
            if not set(keys).isdisjoint(responses):
                return batch.id
        return None

    async def results(self, batch: str, like: WireRequest) -> Responses | None:
        found = await self._ask(_AnthropicBatch, "GET", f"{_url(like)}/{batch}", like)
        if found.processing_status != "ended":
            return None
        # Not the address that the batch states: the key goes to no other host.
        url = f"{_url(like)}/{batch}/results"
        lines = self._lines(url, await self._fetch("GET", url, like), _AnthropicLine)
        return {line.custom_id: _anthropic_response(line.result) for line in lines}


def _anthropic_response(result: _AnthropicResult) -> WireResponse:
    if result.type == "succeeded":
        return WireResponse(200, json.dumps(result.message).encode())
    error = result.error
    if not isinstance(error, dict):  # Canceled or expired: not tried.
        return WireResponse(503, json.dumps({"error": {"message": result.type}}).encode())
    inner = error.get("error")
    whole: dict[str, JsonValue] = error if isinstance(inner, dict) else {"error": error}
    kind = inner.get("type") if isinstance(inner, dict) else error.get("type")
    return WireResponse(STATUSES.get(str(kind), 500), json.dumps(whole).encode())


def _split(wire: WireRequest) -> tuple[str, str]:
    """Return the base address of OpenAI's API, and the path of a call as its batches name it."""
    for path in ("/chat/completions", "/responses"):
        if wire.url.endswith(path):
            return wire.url.removesuffix(path), f"/v1{path}"
    raise BackendError(f"{wire.url} is no address of OpenAI's API", "configuration")


def _url(wire: WireRequest) -> str:
    """Return the address of Anthropic's batches."""
    return f"{wire.url.partition('?')[0]}/batches"
