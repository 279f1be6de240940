"""LoRA adapters of a running server (vLLM, `arena serve`), loaded and unloaded over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import JsonValue

from arena.core.errors import BackendError
from backends.provider_errors import extract_message, safe_excerpt, status_error

TIMEOUT = httpx.Timeout(120.0, connect=10.0)
"""Seconds; merging an adapter into a large model takes some."""


class RemoteAdapters:
    """The adapters of the server at `url` (with its /v1), by the names that requests use."""

    def __init__(self, url: str, key: str = "") -> None:
        self._url = url.rstrip("/")
        self._key = key

    async def load(self, name: str, folder: Path) -> None:
        """Answer requests for `name` with the adapter in `folder`, instead of an older one.

        The folder, in PEFT's format, must exist on the server under the same path. Raises
        BackendError.
        """
        body: dict[str, JsonValue] = {
            "lora_name": name,
            "lora_path": f"{folder}",
            "load_inplace": True,
        }
        await self._post("load_lora_adapter", body)

    async def unload(self, name: str) -> None:
        """Remove an adapter, if the server still has it. Raises BackendError."""
        await self._post("unload_lora_adapter", {"lora_name": name}, allowed_status=404)

    async def _post(self, path: str, body: dict[str, JsonValue], allowed_status: int = 200) -> None:
        url = f"{self._url}/{path}"
        reply = await asyncio.to_thread(send_request, "POST", url, self._key, body)
        if isinstance(reply, ConnectionFailure):
            message = f"{url} for {body['lora_name']} failed ({reply.cause})"
            raise BackendError(message, "connection", retryable=True)
        if reply.status not in {200, allowed_status}:
            raise status_error(reply.status, extract_message(reply.text), url, key=self._key)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """HTTP status and body of a server's reply."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """A request without a reply."""

    cause: str
    """One line, without the API key."""


def send_request(
    method: str, url: str, key: str, body: JsonValue = None
) -> HttpReply | ConnectionFailure:
    """Send one HTTP request, and block until the reply.

    A failure is returned and not raised: httpx's exception holds the request with the API key.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        reply = httpx.request(method, url, json=body, headers=headers, timeout=TIMEOUT)
        return HttpReply(reply.status_code, reply.text)
    except httpx.HTTPError as error:
        cause = safe_excerpt(f"{error}", key) or type(error).__name__
        return ConnectionFailure(cause)
