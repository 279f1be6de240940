"""LoRA adapters of a running server (vLLM, `arena serve`), loaded and unloaded over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import httpx

from arena.core.errors import BackendError
from arena.core.json import Json
from backends.openai_wire import failure, one_line, said_in, shortened, without

TIMEOUT = httpx.Timeout(120.0, connect=10.0)
"""Seconds; merging an adapter into a large model takes some."""


class RemoteAdapters:
    """The adapters of the server at `url` (with its /v1), by the names that requests use."""

    def __init__(self, url: str, key: str = "") -> None:
        self._url = url.rstrip("/")
        self._key = key

    async def load(self, name: str, folder: Path) -> None:
        """Answer requests for `name` with the adapter in `folder`, instead of any older one.

        The folder, in PEFT's format, must lie where the server sees it under the same path.
        Raises BackendError.
        """
        body: dict[str, Json] = {"lora_name": name, "lora_path": f"{folder}", "load_inplace": True}
        await self._post("load_lora_adapter", body)

    async def unload(self, name: str) -> None:
        """Forget an adapter; the server may have done so already. Raises BackendError."""
        await self._post("unload_lora_adapter", {"lora_name": name}, gone=404)

    async def _post(self, what: str, body: dict[str, Json], gone: int = 200) -> None:
        fault = await self._fault(f"{self._url}/{what}", body, gone)
        if fault is not None:
            raise fault

    async def _fault(self, url: str, body: dict[str, Json], gone: int) -> BackendError | None:
        answer = await asyncio.to_thread(ask, "POST", url, self._key, body)
        if isinstance(answer, Silence):
            message = f"{url} for {body['lora_name']} failed ({answer.why})"
            return BackendError(message, "connection", retryable=True)
        if answer.status in {200, gone}:
            return None
        return failure(answer.status, said_in(answer.text), url, key=self._key)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said, and with which HTTP status."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Silence:
    """There was no answer, and why, without the key."""

    why: str


def ask(method: str, url: str, key: str, body: object = None) -> Answer | Silence:
    """One HTTP request; blocks. What failed is not raised: httpx's error holds the key."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.request(method, url, json=body, headers=headers, timeout=TIMEOUT)
        return Answer(answer.status_code, answer.text)
    except httpx.HTTPError as error:
        return Silence(shortened(without(one_line(f"{error}"), key)) or type(error).__name__)
