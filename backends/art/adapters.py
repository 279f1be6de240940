"""LoRA adapters of a running server (vLLM, `arena serve`), loaded and unloaded over HTTP."""

from __future__ import annotations

from pathlib import Path

import httpx

from arena.errors import BackendError
from arena.observation import Json
from backends.openai_wire import failure, one_line, said_in, shortened, without

LONGEST = 60.0
"""Seconds for reading an adapter."""


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
            raise fault  # Not inside of an `except`: httpx's error holds the request and its key.

    async def _fault(self, url: str, body: dict[str, Json], gone: int) -> BackendError | None:
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            async with httpx.AsyncClient(headers=headers, timeout=LONGEST) as client:
                answer = await client.post(url, json=body)
        except httpx.HTTPError as error:
            said = shortened(without(one_line(f"{error}"), self._key)) or type(error).__name__
            message = f"{url} for {body['lora_name']} failed ({said})"
            return BackendError(message, "connection", retryable=True)
        if answer.status_code in {200, gone}:
            return None
        return failure(answer.status_code, said_in(answer.text), url, key=self._key)
