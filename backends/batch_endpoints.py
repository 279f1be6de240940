"""Batch endpoints of OpenAI and Anthropic: many requests in one upload, answered within a day.

litellm creates no batches of Anthropic, so both are spoken to directly. Bodies of requests and
responses are those that litellm writes and reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import AliasChoices, AliasPath, BaseModel, Field, JsonValue, ValidationError

from arena.core.errors import BackendError
from arena.core.text import first_fault
from arena.llm.batches import BatchRefused, Responses, StoredBatch, WireRequest, WireResponse
from arena.llm.settings import Limits
from backends.openai_http import HTTPCalls
from backends.provider_errors import safe_excerpt

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

Answer = TypeVar("Answer", bound=BaseModel)


class _Batch(BaseModel):
    """A batch, or a file, as either provider states it."""

    id: str
    status: str = Field("", validation_alias=AliasChoices("status", "processing_status"))
    metadata: dict[str, str] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    fault: dict[str, JsonValue] = Field({}, validation_alias=AliasPath("errors", "data", 0))
    request_counts: dict[str, int] | None = None
    created_at: datetime = datetime.fromtimestamp(0, UTC)


class _Batches(BaseModel):
    data: list[_Batch]


class _Result(BaseModel):
    """A line of a file of results: OpenAI states a response or an error, Anthropic a result."""

    custom_id: str
    status: int | None = Field(None, validation_alias=AliasPath("response", "status_code"))
    body: JsonValue = Field(
        None,
        validation_alias=AliasChoices(
            AliasPath("response", "body"), AliasPath("result", "message")
        ),
    )
    error: dict[str, JsonValue] | None = Field(
        None,
        validation_alias=AliasChoices(
            AliasPath("result", "error", "error"), AliasPath("result", "error"), "error"
        ),
    )

    def response(self) -> WireResponse:
        """Return what a call would get; 503 for a request that was not tried, or not in time."""
        if self.body is not None:
            return WireResponse(self.status or 200, json.dumps(self.body).encode())
        error = self.error or {"message": "the batch has no answer"}
        is_ours = error.get("type") == "invalid_request_error"
        status = self.status or (400 if is_ours else 503)
        return WireResponse(status, json.dumps({"error": error}).encode())


class HTTPBatches:
    """Base of the endpoints: requests with the address and the key of a call."""

    def __init__(self, limits: Limits, key: str) -> None:
        self._calls = HTTPCalls("the batch endpoint", key, limits)
        self._key = key

    async def close(self) -> None:
        await self._calls.close()

    async def _fetch(self, method: str, url: str, like: WireRequest, **content: Any) -> bytes:
        """Return the body of a response with status 200. Raises BackendError otherwise."""
        headers = {name: like.headers[name] for name in SENT_HEADERS if name in like.headers}
        return await self._calls.fetch(method, url, MOST_BYTES, headers=headers, **content)

    async def _ask(self, method: str, url: str, like: WireRequest, **content: Any) -> _Batch:
        """Return the batch or the file that a response states."""
        return self._parsed(_Batch, url, await self._fetch(method, url, like, **content))

    async def _newest(self, url: str, like: WireRequest) -> list[_Batch]:
        """Return the newest batches."""
        url = f"{url}?limit=100"
        return self._parsed(_Batches, url, await self._fetch("GET", url, like)).data

    async def _responses(self, url: str, like: WireRequest) -> Responses:
        """Return the responses in a file of results."""
        lines = filter(bytes.strip, (await self._fetch("GET", url, like)).splitlines())
        results = (self._parsed(_Result, url, line) for line in lines)
        return {result.custom_id: result.response() for result in results}

    def _parsed(self, kind: type[Answer], url: str, text: bytes) -> Answer:
        try:
            return kind.model_validate_json(text)
        except ValidationError as error:
            problem = f"{url} is no batch endpoint: {first_fault(error, 'its answer')}"
            raise BackendError(safe_excerpt(problem, self._key), "bad_response") from None


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
        file = await self._ask("POST", f"{base}/files", like, files=upload, data=purpose)
        batch = {
            "input_file_id": file.id,
            "endpoint": path,
            "completion_window": "24h",
            "metadata": {"arena": name},
        }
        return (await self._ask("POST", f"{base}/batches", like, json=batch)).id

    async def find(self, batch: StoredBatch, like: WireRequest) -> str | None:
        listed = await self._newest(f"{_split(like)[0]}/batches", like)
        return next((b.id for b in listed if (b.metadata or {}).get("arena") == batch.name), None)

    async def results(self, batch: str, like: WireRequest) -> Responses | None:
        base, _ = _split(like)
        found = await self._ask("GET", f"{base}/batches/{batch}", like)
        if found.status == "failed":
            fault = f"{found.fault.get('message') or found.status} ({found.fault.get('code')})"
            raise BatchRefused(f"batch {batch} was refused: {safe_excerpt(fault, self._key)}")
        if found.status not in {"completed", "expired", "cancelled"}:
            return None
        responses = Responses()
        for file in filter(None, (found.output_file_id, found.error_file_id)):
            responses |= await self._responses(f"{base}/files/{file}/content", like)
        return responses


class AnthropicBatches(HTTPBatches):
    """Anthropic's `/v1/messages/batches`."""

    async def submit(self, name: str, requests: Mapping[str, WireRequest]) -> str:
        like = next(iter(requests.values()))
        entries = (
            b'{"custom_id": "%b", "params": %b}' % (key.encode(), wire.body)
            for key, wire in requests.items()
        )
        body = b'{"requests": [%b]}' % b",".join(entries)
        return (await self._ask("POST", _url(like), like, content=body)).id

    async def find(self, batch: StoredBatch, like: WireRequest) -> str | None:
        """Compare the keys of batches of this size and time: they have no name."""
        for each in await self._newest(_url(like), like):
            is_later = each.created_at.timestamp() > batch.since - CLOCK_SKEW
            if not is_later or sum((each.request_counts or {}).values()) != len(batch.keys):
                continue
            while (responses := await self.results(each.id, like)) is None:
                await asyncio.sleep(FIND_INTERVAL)
            if not set(batch.keys).isdisjoint(responses):
                return each.id
        return None

    async def results(self, batch: str, like: WireRequest) -> Responses | None:
        # Not the address that the batch states: the key goes to no other host.
        url = f"{_url(like)}/{batch}"
        if (await self._ask("GET", url, like)).status != "ended":
            return None
        return await self._responses(f"{url}/results", like)


def _split(wire: WireRequest) -> tuple[str, str]:
    """Return the base address of OpenAI's API, and the path of a call as its batches name it."""
    for path in ("/chat/completions", "/responses"):
        if wire.url.endswith(path):
            return wire.url.removesuffix(path), f"/v1{path}"
    raise BackendError(f"{wire.url} is no address of OpenAI's API", "configuration")


def _url(wire: WireRequest) -> str:
    """Return the address of Anthropic's batches."""
    return f"{wire.url.partition('?')[0]}/batches"
