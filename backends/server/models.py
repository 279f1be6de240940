"""The endpoints that list models, and load and unload LoRA adapters, in vLLM's formats.

Loading is disabled unless a root folder is configured, and then restricted to real folders below
it: a client must not be able to make the server read files of its choice.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError
from starlette.responses import JSONResponse, PlainTextResponse, Response

from arena.core.errors import ArenaError
from backends.server.access import ApiError, invalid_value, unknown_model

if TYPE_CHECKING:
    from pydantic import JsonValue
    from starlette.requests import Request

    from backends.embedded.sampler import Sampler
    from backends.server.schemas import LoadAdapterBody, UnloadAdapterBody

# The exceptions that a damaged or foreign adapter can cause. All are faults of the request.
LOADING_ERRORS = (
    ArenaError, SafetensorError, OSError, RuntimeError, LookupError, ArithmeticError, ValueError,
    TypeError, AttributeError,
)  # fmt: skip


class ModelEndpoints:
    """The endpoints about the models of a sampler: its base model and its adapters."""

    def __init__(self, sampler: Sampler, root: Path | None) -> None:
        self._sampler = sampler
        self._root = root.resolve(strict=True) if root else None
        self._created = int(time.time())
        # One change at a time: the checks and the loading in a thread must see the same adapters.
        self._changing = asyncio.Lock()

    async def list_models(self, _request: Request) -> Response:
        """Answer `/v1/models`."""
        return JSONResponse({"object": "list", "data": self._cards()})

    async def show_model(self, request: Request) -> Response:
        """Answer `/v1/models/NAME`."""
        name = request.path_params["name"]
        for card in self._cards():
            if card["id"] == name:
                return JSONResponse(card)
        raise unknown_model(name)

    def _cards(self) -> list[dict[str, JsonValue]]:
        base = self._sampler.name
        card: dict[str, JsonValue] = {
            "object": "model",
            "created": self._created,
            "owned_by": "arena",
        }
        return [
            {**card, "id": base, "parent": None, "max_model_len": self._sampler.context_length},
            *({**card, "id": name, "parent": base} for name in self._sampler.adapters),
        ]

    async def load_adapter(self, _request: Request, body: LoadAdapterBody) -> Response:
        """Load a LoRA adapter in PEFT's format from a folder."""
        name = body.lora_name
        folder = self._resolve_folder(body.lora_path)
        async with self._changing:
            if name == self._sampler.name:
                raise invalid_value("lora_name", f"'{name}' is the name of the base model")
            if name in self._sampler.adapters and not body.load_inplace:
                message = f"The lora adapter '{name}' has already been loaded."
                raise invalid_value("lora_name", message)
            try:
                await asyncio.to_thread(self._sampler.load_adapter, name, folder)
            except LOADING_ERRORS as error:
                # Clients must not learn where the root folder is.
                reason = str(error).replace(str(folder), f"'{body.lora_path}'")
                raise invalid_value("lora_path", f"cannot load the adapter: {reason}") from error
        return PlainTextResponse(f"Success: LoRA adapter '{name}' added successfully.")

    async def unload_adapter(self, _request: Request, body: UnloadAdapterBody) -> Response:
        """Unload a LoRA adapter."""
        self._require_root()
        name = body.lora_name
        async with self._changing:
            if name not in self._sampler.adapters:
                message = f"The lora adapter '{name}' cannot be found."
                raise ApiError(404, message, param="lora_name")
            await asyncio.to_thread(self._sampler.unload_adapter, name)
        return PlainTextResponse(f"Success: LoRA adapter '{name}' removed successfully.")

    def _require_root(self) -> Path:
        if self._root is None:
            message = "adapters cannot be loaded: the server was started without --lora-root DIR"
            raise ApiError(403, message)
        return self._root

    def _resolve_folder(self, path: str) -> Path:
        """Return the folder with links resolved; relative paths start at the root.

        The response for a path outside the root does not depend on whether it exists.
        """
        root = self._require_root()
        try:
            folder = (root / path).resolve()
            is_inside = folder != root and folder.is_relative_to(root)
            files = list(folder.iterdir()) if is_inside and folder.is_dir() else []
            # The files may be links as well.
            is_inside = is_inside and all(file.resolve().is_relative_to(root) for file in files)
        except (OSError, ValueError, RuntimeError):  # NUL bytes, long names, circular links.
            is_inside = False
        if not is_inside:
            message = "lora_path must be a folder below the server's --lora-root"
            raise invalid_value("lora_path", message)
        if not files:
            message = f"lora_path '{path}' contains no adapter"
            raise ApiError(404, message, param="lora_path")
        return folder
