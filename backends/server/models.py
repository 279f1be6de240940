"""The endpoints that list models, and load and unload LoRA adapters, in vLLM's format.

Loading is disabled unless a root folder is configured, and then restricted to real folders below
it: a client must not be able to make the server read files of its choice.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, JsonValue
from safetensors import SafetensorError
from starlette.responses import JSONResponse, PlainTextResponse, Response

from arena.core.errors import ArenaError
from arena.http.access import ApiError
from backends.server.wire import EndpointBody, invalid_value

if TYPE_CHECKING:
    from starlette.requests import Request

    from backends.embedded.sampler import Sampler

# The exceptions that a damaged or foreign adapter can cause. All are faults of the request.
LOADING_ERRORS = (
    ArenaError, SafetensorError, OSError, RuntimeError, LookupError, ArithmeticError, ValueError,
    TypeError, AttributeError,
)  # fmt: skip


class LoadAdapterBody(EndpointBody):
    """Body of `/v1/load_lora_adapter`."""

    neutral_values: ClassVar[dict[str, JsonValue]] = {"is_3d_lora_weight": False}

    lora_name: str = Field(min_length=1, max_length=200)
    lora_path: str = Field(min_length=1, max_length=4096)
    load_inplace: bool = False


class UnloadAdapterBody(EndpointBody):
    """Body of `/v1/unload_lora_adapter`."""

    # What identified an adapter when it was loaded, and an old form of its name in vLLM.
    fields_without_effect = frozenset({"load_inplace", "lora_int_id", "lora_path"})

    lora_name: str = Field(min_length=1)


class ModelEndpoints:
    """The endpoints about the models of a sampler: its base model and its adapters.

    Adapters are loaded below `root`, or not at all without one. Loading one more than
    `max_adapters` unloads the oldest.
    """

    def __init__(self, sampler: Sampler, root: Path | None, max_adapters: int | None) -> None:
        self._newest = ""
        """Name of the adapter that was loaded last, until it is unloaded."""
        self._sampler = sampler
        self._root = root.resolve(strict=True) if root else None
        self._max_adapters = max_adapters
        self._created = int(time.time())
        # One change at a time: the checks and the loading in a thread must see the same adapters.
        self._changing = asyncio.Lock()

    async def list_models(self, _request: Request) -> Response:
        """Answer `/v1/models`: the base model, then its adapters."""
        base = self._sampler.name
        card: dict[str, JsonValue] = {
            "object": "model",
            "created": self._created,
            "owned_by": "arena",
        }
        cards: list[dict[str, JsonValue]] = [
            {**card, "id": base, "parent": None, "max_model_len": self._sampler.context_length},
            *({**card, "id": name, "parent": base} for name in self._sampler.adapters),
        ]
        return JSONResponse({"object": "list", "data": cards})

    def resolve(self, name: str) -> str:
        """Return the model that answers to a name, by default the base model.

        `NAME@newest` is the adapter that was loaded last, or else the base model `NAME`. Raises
        ApiError for a name that is not served.
        """
        if name == f"{self._sampler.name}@newest":
            name = self._newest
        name = name or self._sampler.name
        if name != self._sampler.name and name not in self._sampler.adapters:
            message = f"The model `{name}` does not exist."
            raise ApiError(404, message, param="model", code="model_not_found")
        return name

    async def load_adapter(self, _request: Request, body: LoadAdapterBody) -> Response:
        """Load a LoRA adapter in PEFT's format; the oldest are unloaded if there are too many.

        Relative paths start at the root. An adapter that cannot be loaded changes nothing.
        """
        name, path = body.lora_name, body.lora_path
        folder = self._resolve_folder(path)
        async with self._changing:
            if name in {self._sampler.name, f"{self._sampler.name}@newest"}:
                raise invalid_value("lora_name", f"'{name}' is a name of the base model")
            if name in self._sampler.adapters and not body.load_inplace:
                message = f"The lora adapter '{name}' has already been loaded."
                raise invalid_value("lora_name", message)
            try:
                await asyncio.to_thread(self._sampler.load_adapter, name, folder)
            except LOADING_ERRORS as error:
                # Clients must not learn where the root folder is.
                reason = str(error).replace(str(folder), f"'{path}'")
                message = f"cannot load the adapter: {reason}"
                raise invalid_value("lora_path", message) from error
            self._newest = name
            self._unload_oldest()
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
            if self._newest == name:
                self._newest = ""
        return PlainTextResponse(f"Success: LoRA adapter '{name}' removed successfully.")

    def _unload_oldest(self) -> None:
        """Unload adapters above the limit, but never the newest one."""
        older = [name for name in self._sampler.adapters if name != self._newest]
        excess = len(older) + 1 - (self._max_adapters or len(older) + 1)
        for name in older[: max(excess, 0)]:
            self._sampler.unload_adapter(name)

    def _require_root(self) -> Path:
        """Return the folder of the adapters. Raises ApiError if loading is disabled."""
        if self._root is None:
            message = "adapters cannot be loaded: the server was started without --lora-root DIR"
            raise ApiError(403, message)
        return self._root

    def _resolve_folder(self, path: str) -> Path:
        """Return the folder with links resolved; relative paths start at the root.

        The response for a path outside the root does not depend on whether it exists. Raises
        ApiError.
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
            raise ApiError(404, f"lora_path '{path}' contains no adapter", param="lora_path")
        return folder
