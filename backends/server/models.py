"""The endpoints that list models, and load and unload LoRA adapters: vLLM's and Atropos' formats.

Loading is disabled unless a root folder is configured, and then restricted to real folders below
it: a client must not be able to make the server read files of its choice. Atropos' trainer
(atroposlib 0.4.0) tries vLLM's `/v1/load_lora_adapter` first, and `/lora/load` if that one fails.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field
from safetensors import SafetensorError
from starlette.responses import JSONResponse, PlainTextResponse, Response

from arena.core.errors import ArenaError
from arena.http.access import ApiError, invalid_value, unknown_model
from backends.embedded.architecture import read_json_object
from backends.server.messages import EndpointBody, NeutralValues

if TYPE_CHECKING:
    from pydantic import JsonValue
    from starlette.requests import Request

    from backends.embedded.sampler import Sampler

ADAPTER_CONFIG = "adapter_config.json"
# The exceptions that a damaged or foreign adapter can cause. All are faults of the request.
LOADING_ERRORS = (
    ArenaError, SafetensorError, OSError, RuntimeError, LookupError, ArithmeticError, ValueError,
    TypeError, AttributeError,
)  # fmt: skip


class LoadAdapterBody(EndpointBody):
    """Body of `/v1/load_lora_adapter`."""

    neutral_values: ClassVar[NeutralValues] = {"is_3d_lora_weight": (False,)}

    lora_name: str = Field(min_length=1, max_length=200)
    lora_path: str = Field(min_length=1, max_length=4096)
    load_inplace: bool = False


class UnloadAdapterBody(EndpointBody):
    """Body of `/v1/unload_lora_adapter`."""

    # What identified an adapter when it was loaded, and an old form of its name in vLLM.
    fields_without_effect = frozenset({"load_inplace", "lora_int_id", "lora_path"})

    lora_name: str = Field(min_length=1)


class LoadNewestBody(EndpointBody):
    """Body of `/lora/load`."""

    adapter_path: str = Field(min_length=1, max_length=4096)
    adapter_name: str = Field("", max_length=200)


class UnloadNewestBody(EndpointBody):
    """Body of `/lora/unload`: no field, or nothing at all."""


@dataclass(frozen=True, slots=True)
class LoadedAdapter:
    """An adapter as a client loaded it."""

    name: str
    path: str
    """As the client wrote it: clients must not learn where the root folder is."""
    folder: Path
    number: int
    """Number of the load, from 1."""


class ModelEndpoints:
    """The endpoints about the models of a sampler: its base model and its adapters.

    Adapters are loaded below `root`, or not at all without one. Loading one more than
    `max_adapters` unloads the oldest.
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

    async def load_newest(self, _request: Request, body: LoadNewestBody) -> Response:
        """Load an adapter, or replace the one of that name, and let it answer `/generate`."""
        name = body.adapter_name or f"adapter_{self.loads}"
        adapter = await self.load(name, body.adapter_path, replaces=True, fields="adapter")
        config = read_json_object(adapter.folder / ADAPTER_CONFIG)
        return JSONResponse(
            {
                "status": "ok",
                "adapter_path": adapter.path,
                "adapter_name": adapter.name,
                "adapter_id": adapter.number,
                "load_count": self.loads,
                "adapter_config": {
                    "r": config.get("r"),
                    "lora_alpha": config.get("lora_alpha"),
                    "target_modules": config.get("target_modules"),
                    "base_model": config.get("base_model_name_or_path"),
                },
            }
        )

    async def unload_newest(self, _request: Request, _body: UnloadNewestBody) -> Response:
        """Unload the adapter that was loaded last; the base model answers `/generate` again."""
        self.require_root()
        newest = self.newest
        if newest is not None:
            await self.unload(newest.name)
        return JSONResponse(
            {
                "status": "ok",
                "previous_adapter": newest.path if newest else None,
                "previous_name": newest.name if newest else None,
            }
        )

    async def show_newest(self, _request: Request) -> Response:
        """Report the adapter that answers `/generate`, and those that could be loaded."""
        newest = self.newest
        # In a thread: a long run has thousands of folders.
        available = await asyncio.to_thread(self.available)
        return JSONResponse(
            {
                "lora_available": available is not None,
                "active_adapter_path": newest.path if newest else None,
                "active_adapter_name": newest.name if newest else None,
                "active_adapter_id": newest.number if newest else None,
                "load_count": self.loads,
                "available_adapters": available or [],
            }
        )

    async def load(
        self, name: str, path: str, *, replaces: bool, fields: str = "lora"
    ) -> LoadedAdapter:
        """Load an adapter; the oldest ones are unloaded if there are too many.

        Relative paths start at the root. An adapter of that name is replaced, or an error. `fields`
        is the start of the names of the two fields, in errors: `lora_name`, `lora_path`.

        Raises ApiError if the adapter cannot be loaded. Those that are loaded stay.
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
