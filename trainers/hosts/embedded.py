"""The embedded host: weights, sampler and trainer in this process, on a CPU or CUDA."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from arena.llm.backend import Backend
from arena.plugins.extras import require
from backends.embedded import DEFAULT_CHECKPOINT, find_checkpoint
from trainers.checks import check_device
from trainers.config.config import OWNED_SERVERS
from trainers.hosts.arguments import train_arguments
from trainers.hosts.art_errors import require_open
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import inference_server
from trainers.hosts.weight_sync.adapter_server import check_servers
from trainers.hosts.weight_sync.own_server import check_own_server

if TYPE_CHECKING:
    from trainers.hosts.art import TrainableModel
    from trainers.hosts.embedded_backend import EmbeddedArtBackend
    from trainers.hosts.weight_sync.remote import RemoteBackend

SCRATCH = "scratch"
"""Base model that the trainer makes before it opens the host."""
PACKAGES = ("art", "openai", "safetensors", "starlette", "torch", "transformers")


class EmbeddedHost:
    """A `TrainingHost` over `EmbeddedArtBackend`."""

    name = "embedded"

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._model: TrainableModel[Any, Any] | None = None
        self._backend: EmbeddedArtBackend | None = None
        self._remote: RemoteBackend | None = None
        """The same object as `_backend`, if another process answers (--server)."""

    @property
    def model(self) -> TrainableModel[Any, Any]:
        return require_open(self._model)

    @property
    def backend(self) -> EmbeddedArtBackend:
        return require_open(self._backend)

    def preflight(self) -> None:
        require("the embedded host", PACKAGES, "train")
        config = self._request.config
        # The model from scratch is made after the preflight, so its files do not exist yet.
        if config.base_model != SCRATCH:
            find_checkpoint(config.base_model)
        check_device(config.device)
        if config.server in OWNED_SERVERS:
            check_own_server(config)
        elif config.server:
            check_servers(self._request)

    def arguments(self) -> dict[str, JsonValue]:
        from trainers.hosts.train_settings import TrainSettings

        return train_arguments(self._request.config, TrainSettings, host="the embedded host")

    async def open(self, step: int) -> int:
        from trainers.hosts.model import trainable_model

        config, folder = self._request.config, self._request.folder
        self._backend = self._make_backend(step)
        self._model = trainable_model(config, folder, config.base_model or DEFAULT_CHECKPOINT)
        await self._model.register(self._backend)  # type: ignore[arg-type]
        if self._remote is not None:
            connection = partial(inference_server, self._model, self._request, self.name)
            await self._remote.connect(connection)
        return self._backend.step

    def _make_backend(self, step: int) -> EmbeddedArtBackend:
        from trainers.algorithms.lora import Lora

        config = self._request.config
        rank = config.trained_rank
        options: dict[str, Any] = {
            "folder": self._request.folder / "art",
            "base_model": find_checkpoint(config.base_model),
            "lora": Lora(rank, config.lora_alpha, config.seed) if rank else None,
            "device": config.device,
            "context_length": config.max_context_tokens or None,
            "seed": config.seed,
            "first_step": step,
        }
        if config.server:
            from trainers.hosts.weight_sync.modes import remote_backend

            self._remote = remote_backend(self._request, **options)
            return self._remote
        from trainers.hosts.embedded_backend import EmbeddedArtBackend

        return EmbeddedArtBackend(**options)

    def policy(self, step: int | None = None) -> Backend:
        if self._remote is not None:
            return self._remote.policy(step)
        from backends.embedded import SamplerBackend

        backend, model = self.backend, self.model
        if step is not None:
            backend._model_inference_name(model, step)  # Raises now if the step is not kept.

        # Read at each request: without `step` the answer comes from the newest weights.
        def version() -> int:
            return backend.step if step is None else step

        return SamplerBackend(
            backend.sampler, lambda: backend._model_inference_name(model, version()), version
        )

    async def keep(self, steps: Collection[int]) -> None:
        await self.backend._delete_checkpoint_files(self.model, sorted(steps))

    def checkpoint(self, step: int) -> Path | None:
        return self.backend.checkpoint(step)

    async def close(self) -> None:
        if self._backend is not None:
            await self._backend.close()
