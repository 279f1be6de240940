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
from arena.llm.batches import BatchRefused, Responses, StoredBatch, WireAddress, WireResponse
from arena.llm.settings import Limits
from backends.openai_http import HTTPCalls
from backends.provider_errors import safe_excerpt

MOST_BYTES = 1 << 30
"""Longest body of results that is read."""
CLOCK_SKEW = 600.0
"""Seconds by which the clock of a provider may differ from ours."""
FIND_INTERVAL = 10.0
"""Seconds between two looks at a batch that may be the one that is searched."""
_BODY = AliasChoices(AliasPath("response", "body"), AliasPath("result", "message"))
_ERROR = AliasChoices(AliasPath("result", "error", "error"), AliasPath("result", "error"), "error")
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
    body: JsonValue = Field(None, validation_alias=_BODY)
    error: dict[str, JsonValue] | None = Field(None, validation_alias=_ERROR)

    def response(self) -> WireResponse:
        """Return what a call would get; 503 for a request that was not tried, or not in time."""
        if self.body is not None:
            return self.status or 200, json.dumps(self.body).encode()
        error = self.error or {"message": "the batch has no answer"}
        is_ours = error.get("type") == "invalid_request_error"
        status = self.status or (400 if is_ours else 503)
        return status, json.dumps({"error": error}).encode()


class HTTPBatches:
    """Base of the endpoints. The batches are at `_url`, by default below the address of a call."""

    def __init__(self, limits: Limits, key: str, address: WireAddress) -> None:
        self._calls = HTTPCalls("the batch endpoint", key, limits)
        self._key, self._headers = key, dict(address.headers)
        self._url = f"{address.url.partition('?')[0]}/batches"

    async def close(self) -> None:
        await self._calls.close()

    async def _ask(self, kind: type[Answer], method: str, url: str, **content: Any) -> Answer:
        """Return what a response states. Raises BackendError."""
        return self._parsed(kind, url, await self._fetch(method, url, **content))

    async def _responses(self, url: str) -> Responses:
        """Return the responses in a file of results."""
        lines = filter(bytes.strip, (await self._fetch("GET", url)).splitlines())
        results = (self._parsed(_Result, url, line) for line in lines)
        return {result.custom_id: result.response() for result in results}

    async def _fetch(self, method: str, url: str, **content: Any) -> bytes:
        return await self._calls.fetch(method, url, MOST_BYTES, headers=self._headers, **content)

    def _parsed(self, kind: type[Answer], url: str, text: bytes) -> Answer:
        try:
            return kind.model_validate_json(text)
        except ValidationError as error:
            problem = f"{url} is no batch endpoint: {first_fault(error, 'its answer')}"
            raise BackendError(safe_excerpt(problem, self._key), "bad_response") from None


class OpenAIBatches(HTTPBatches):
    """OpenAI's `/v1/batches`: requests and responses are files of JSON lines."""

    def __init__(self, limits: Limits, key: str, address: WireAddress) -> None:
        super().__init__(limits, key, address)
        base = address.url.removesuffix("/chat/completions").removesuffix("/responses")
        self._url, self._files = f"{base}/batches", f"{base}/files"
        self._path = f"/v1{address.url.removeprefix(base)}"
        """Path of a call, as batches name it."""

    async def submit(self, name: str, bodies: Mapping[str, bytes]) -> str:
        line = b'{"custom_id": "%b", "method": "POST", "url": "%b", "body": %b}'
        path = self._path.encode()
        lines = b"\n".join(line % (key.encode(), path, body) for key, body in bodies.items())
        upload = {"file": ("arena.jsonl", lines, "application/jsonl")}
        purpose = {"purpose": "batch"}
        file = await self._ask(_Batch, "POST", self._files, files=upload, data=purpose)
        batch = {"input_file_id": file.id, "endpoint": self._path, "completion_window": "24h"}
        named = {**batch, "metadata": {"arena": name}}
        return (await self._ask(_Batch, "POST", self._url, json=named)).id

    async def find(self, batch: StoredBatch) -> str | None:
        newest = await self._ask(_Batches, "GET", f"{self._url}?limit=100")
        named = ((each.id, each.metadata or {}) for each in newest.data)
        return next((id for id, metadata in named if metadata.get("arena") == batch.name), None)

    async def results(self, batch: str) -> Responses | None:
        found = await self._ask(_Batch, "GET", f"{self._url}/{batch}")
        if found.status == "failed":
            fault = f"{found.fault.get('message') or found.status} ({found.fault.get('code')})"
            raise BatchRefused(f"batch {batch} was refused: {safe_excerpt(fault, self._key)}")
        if found.status not in {"completed", "expired", "cancelled"}:
            return None
        responses = Responses()
        for file in filter(None, (found.output_file_id, found.error_file_id)):
            responses |= await self._responses(f"{self._files}/{file}/content")
        return responses


class AnthropicBatches(HTTPBatches):
    """Anthropic's `/v1/messages/batches`."""

    async def submit(self, name: str, bodies: Mapping[str, bytes]) -> str:
        entry = b'{"custom_id": "%b", "params": %b}'
        entries = b",".join(entry % (key.encode(), body) for key, body in bodies.items())
        content = b'{"requests": [%b]}' % entries
        return (await self._ask(_Batch, "POST", self._url, content=content)).id

    async def find(self, batch: StoredBatch) -> str | None:
        """Compare the keys of batches of this size and time: they have no name."""
        newest = await self._ask(_Batches, "GET", f"{self._url}?limit=100")
        for each in newest.data:
            is_later = each.created_at.timestamp() > batch.since - CLOCK_SKEW
            if not is_later or sum((each.request_counts or {}).values()) != len(batch.keys):
                continue
            while (responses := await self.results(each.id)) is None:
                await asyncio.sleep(FIND_INTERVAL)
            if not set(batch.keys).isdisjoint(responses):
                return each.id
        return None

    async def results(self, batch: str) -> Responses | None:
        # Not the address that the batch states: the key goes to no other host.
        url = f"{self._url}/{batch}"
        if (await self._ask(_Batch, "GET", url)).status != "ended":
            return None
        return await self._responses(f"{url}/results")
