"""Loading and unloading LoRA adapters while serving, with vLLM's requests and answers.

Off unless a root folder is configured, and then only for real folders below it: whoever can reach
the server must not make it read files of its choice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from arena.core.errors import ArenaError
from backends.server.errors import ApiError

if TYPE_CHECKING:
    from backends.embedded.sampler import Sampler
    from backends.server.schemas import LoadAdapterBody

# What a damaged or foreign adapter can lead to; each is the fault of who sent it.
UNREADABLE = (
    ArenaError, SafetensorError, OSError, RuntimeError, LookupError, ArithmeticError, ValueError,
    TypeError, AttributeError,
)  # fmt: skip


class Adapters:
    """The adapters that clients have loaded, by name."""

    def __init__(self, sampler: Sampler, root: Path | None) -> None:
        self._sampler = sampler
        self._root = root.resolve(strict=True) if root else None
        self._changing = asyncio.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._sampler.adapters)

    async def load(self, body: LoadAdapterBody) -> str:
        """Load a folder in PEFT's format under a name. Raises ApiError."""
        name = body.lora_name
        folder = self._folder(body.lora_path)
        async with self._changing:
            if name == self._sampler.name:
                raise _bad("lora_name", f"'{name}' is the name of the base model")
            if name in self.names and not body.load_inplace:
                raise _bad("lora_name", f"The lora adapter '{name}' has already been loaded.")
            try:
                await asyncio.to_thread(self._sampler.load_adapter, name, folder)
            except UNREADABLE as error:
                told = str(error).replace(str(folder), f"'{body.lora_path}'")
                raise _bad("lora_path", f"cannot load the adapter: {told}") from error
        return f"Success: LoRA adapter '{name}' added successfully."

    async def unload(self, name: str) -> str:
        """Forget an adapter. Raises ApiError."""
        self._demand_root()
        async with self._changing:
            if name not in self.names:
                message = f"The lora adapter '{name}' cannot be found."
                raise ApiError(404, message, param="lora_name")
            await asyncio.to_thread(self._sampler.unload_adapter, name)
        return f"Success: LoRA adapter '{name}' removed successfully."

    def _demand_root(self) -> Path:
        if self._root is None:
            message = "adapters cannot be loaded: the server was started without --lora-root DIR"
            raise ApiError(403, message)
        return self._root

    def _folder(self, path: str) -> Path:
        """The folder itself, links followed. Paths are taken from the root, unless absolute.

        A path that leads out of the root is refused alike whether there is something or not.
        """
        root = self._demand_root()
        try:
            folder = (root / path).resolve()
            inside = folder != root and folder.is_relative_to(root)
            files = list(folder.iterdir()) if inside and folder.is_dir() else []
            inside = inside and all(file.resolve().is_relative_to(root) for file in files)
        except (OSError, ValueError, RuntimeError):  # NUL bytes, names too long, links in a circle.
            inside = False
        if not inside:
            raise _bad("lora_path", "lora_path must be a folder below the server's --lora-root")
        if not files:
            message = f"there is no adapter in lora_path '{path}'"
            raise ApiError(404, message, param="lora_path")
        return folder


def _bad(param: str, message: str) -> ApiError:
    return ApiError(400, message, param=param, code="invalid_value")
