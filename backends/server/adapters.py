"""Loading and unloading of LoRA adapters while serving, with vLLM's requests and responses.

Disabled unless a root folder is configured, and then restricted to real folders below it: a client
must not be able to make the server read files of its choice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from arena.core.errors import ArenaError
from backends.server.access import ApiError, invalid_value

if TYPE_CHECKING:
    from backends.embedded.sampler import Sampler
    from backends.server.schemas import LoadAdapterBody

# The exceptions that a damaged or foreign adapter can cause. All are faults of the request.
LOADING_ERRORS = (
    ArenaError, SafetensorError, OSError, RuntimeError, LookupError, ArithmeticError, ValueError,
    TypeError, AttributeError,
)  # fmt: skip


class AdapterLoader:
    """Loads and unloads the adapters of a sampler for clients."""

    def __init__(self, sampler: Sampler, root: Path | None) -> None:
        self._sampler = sampler
        self._root = root.resolve(strict=True) if root else None
        # One change at a time: the checks and the loading in a thread must see the same adapters.
        self._changing = asyncio.Lock()

    async def load(self, body: LoadAdapterBody) -> str:
        """Load an adapter in PEFT's format from a folder. Raises ApiError."""
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
        return f"Success: LoRA adapter '{name}' added successfully."

    async def unload(self, name: str) -> str:
        """Unload an adapter. Raises ApiError."""
        self._require_root()
        async with self._changing:
            if name not in self._sampler.adapters:
                message = f"The lora adapter '{name}' cannot be found."
                raise ApiError(404, message, param="lora_name")
            await asyncio.to_thread(self._sampler.unload_adapter, name)
        return f"Success: LoRA adapter '{name}' removed successfully."

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
