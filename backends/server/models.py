"""The endpoints that list models, and load and unload LoRA adapters, in vLLM's formats.

Loading is disabled unless a root folder is configured, and then restricted to real folders below
it: a client must not be able to make the server read files of its choice.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError
from starlette.responses import JSONResponse, PlainTextResponse, Response

from arena.core.errors import ArenaError
from arena.http.access import ApiError, invalid_value, unknown_model

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


@dataclass(frozen=True, slots=True)
class LoadedAdapter:
    """An adapter as a client loaded it."""

    name: str
    path: str
    """As the client wrote it: clients must not learn where the root folder is."""
    folder: Path
    number: int
    """Number of the load, from 1."""


ADAPTER_CONFIG = "adapter_config.json"


class ModelEndpoints:
    """The endpoints about the models of a sampler: its base model and its adapters.

    Args:
        sampler: Holds the weights.
        root: Folder below which adapters may be loaded; None disables loading.
        max_adapters: Loading one more unloads the oldest; None keeps all.
    """

    def __init__(self, sampler: Sampler, root: Path | None, max_adapters: int | None) -> None:
        self.newest: LoadedAdapter | None = None
        """The adapter that was loaded last, until it is unloaded."""
        self.loads = 0
        self._sampler = sampler
        self._root = root.resolve(strict=True) if root else None
        self._max_adapters = max_adapters
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

    @property
    def newest_name(self) -> str:
        """The name by which requests reach the adapter that was loaded last."""
        return f"{self._sampler.name}@newest"

    def resolve(self, name: str) -> str:
        """Return the model that answers to a name, by default the base model.

        `NAME@newest` is the adapter that was loaded last, or else the base model `NAME`. Raises
        ApiError for a name that is not served.
        """
        if name == self.newest_name:
            name = self.newest.name if self.newest else ""
        name = name or self._sampler.name
        if name != self._sampler.name and name not in self._sampler.adapters:
            raise unknown_model(name)
        return name

    async def load_adapter(self, _request: Request, body: LoadAdapterBody) -> Response:
        """Load a LoRA adapter in PEFT's format from a folder."""
        await self.load(body.lora_name, body.lora_path, replaces=body.load_inplace)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    async def unload_adapter(self, _request: Request, body: UnloadAdapterBody) -> Response:
        """Unload a LoRA adapter."""
        await self.unload(body.lora_name)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")

    async def load(
        self, name: str, path: str, *, replaces: bool, fields: str = "lora"
    ) -> LoadedAdapter:
        """Load an adapter; the oldest ones are unloaded if there are too many.

        Args:
            name: Name of the adapter.
            path: Its folder; relative paths start at the root.
            replaces: Replace an adapter of that name, which is an error otherwise.
            fields: Start of the names of the two fields, in errors: `lora_name`, `lora_path`.

        Raises:
            ApiError: The adapter cannot be loaded. Those that are loaded stay.
        """
        folder = self.resolve_folder(path, f"{fields}_path")
        async with self._changing:
            if name in {self._sampler.name, self.newest_name}:
                message = f"'{name}' is a name of the base model"
                raise invalid_value(f"{fields}_name", message)
            if name in self._sampler.adapters and not replaces:
                message = f"The lora adapter '{name}' has already been loaded."
                raise invalid_value(f"{fields}_name", message)
            try:
                await asyncio.to_thread(self._sampler.load_adapter, name, folder)
            except LOADING_ERRORS as error:
                # Clients must not learn where the root folder is.
                reason = str(error).replace(str(folder), f"'{path}'")
                message = f"cannot load the adapter: {reason}"
                raise invalid_value(f"{fields}_path", message) from error
            self.loads += 1
            self.newest = LoadedAdapter(name, path, folder, self.loads)
            self._unload_oldest()
            return self.newest

    def _unload_oldest(self) -> None:
        """Unload adapters above the limit, but never the newest one."""
        assert self.newest is not None, "called after a load"
        older = [name for name in self._sampler.adapters if name != self.newest.name]
        excess = len(older) + 1 - (self._max_adapters or len(older) + 1)
        for name in older[: max(excess, 0)]:
            self._sampler.unload_adapter(name)

    async def unload(self, name: str) -> None:
        """Unload an adapter. Raises ApiError if there is none of that name."""
        self.require_root()
        async with self._changing:
            if name not in self._sampler.adapters:
                message = f"The lora adapter '{name}' cannot be found."
                raise ApiError(404, message, param="lora_name")
            await asyncio.to_thread(self._sampler.unload_adapter, name)
            if self.newest is not None and self.newest.name == name:
                self.newest = None

    def available(self) -> list[str] | None:
        """Return the folders of adapters directly below the root; None without a root."""
        if self._root is None:
            return None
        names: list[str] = []
        for place in sorted(self._root.iterdir()):
            with suppress(ApiError):  # Empty, or a link to a folder outside the root.
                folder = self.resolve_folder(place.name, "adapter_path")
                if (folder / ADAPTER_CONFIG).is_file():
                    names.append(place.name)
        return names

    def require_root(self) -> Path:
        """Return the folder of the adapters. Raises ApiError if loading is disabled."""
        if self._root is None:
            message = "adapters cannot be loaded: the server was started without --lora-root DIR"
            raise ApiError(403, message)
        return self._root

    def resolve_folder(self, path: str, field: str) -> Path:
        """Return the folder with links resolved; relative paths start at the root.

        The response for a path outside the root does not depend on whether it exists. Raises
        ApiError, for the field of this name.
        """
        root = self.require_root()
        try:
            folder = (root / path).resolve()
            is_inside = folder != root and folder.is_relative_to(root)
            files = list(folder.iterdir()) if is_inside and folder.is_dir() else []
            # The files may be links as well.
            is_inside = is_inside and all(file.resolve().is_relative_to(root) for file in files)
        except (OSError, ValueError, RuntimeError):  # NUL bytes, long names, circular links.
            is_inside = False
        if not is_inside:
            message = f"{field} must be a folder below the server's --lora-root"
            raise invalid_value(field, message)
        if not files:
            raise ApiError(404, f"{field} '{path}' contains no adapter", param=field)
        return folder
