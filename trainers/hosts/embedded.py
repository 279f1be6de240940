"""The embedded host: weights, sampler and trainer in this process, on a CPU or CUDA."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.core.errors import ArenaError
from arena.llm.backend import Backend
from arena.plugins.catalog import require
from backends.embedded import find_checkpoint
from trainers.config.config import LORA_ALPHA, MADE_BASES, OWNED_SERVERS
from trainers.hosts.host import HostRequest, train_arguments
from trainers.hosts.selection import Footprint, base_checkpoint, check_device, check_fits, footprint
from trainers.runs.records import RunFiles
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.adapter_server import check_servers
from trainers.weight_sync.own_server import check_own_server

if TYPE_CHECKING:
    from trainers.hosts.embedded_trainer import EmbeddedTrainer, TrainSettings
    from trainers.weight_sync.remote import RemoteTrainer

PACKAGES = ("safetensors", "tokenizers", "torch")


class EmbeddedHost:
    """A `TrainingHost` over `EmbeddedTrainer`."""

    name = "embedded"

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._trainer: EmbeddedTrainer | None = None
        self._remote: RemoteTrainer | None = None
        """The same object as `_trainer`, if another process answers (--server)."""

    @property
    def trainer(self) -> EmbeddedTrainer:
        """Return the holder of the weights. Raises ArenaError before `open`."""
        if self._trainer is None:
            raise ArenaError("the training host is not open")
        return self._trainer

    def preflight(self) -> None:
        require("the embedded host", PACKAGES, "train")
        config = self._request.config
        # The model from scratch is made after the preflight, so its files do not exist yet.
        check_device(config.device)
        if needed := self.footprint():
            check_fits(needed, config, self._request.folder)
        if config.server in OWNED_SERVERS:
            check_own_server(config)
        elif config.server:
            check_servers(self._request)

    def footprint(self) -> Footprint | None:
        """Return the memory and disk that the run needs; None before its base model is made.

        Raises UsageError as `base_checkpoint` does.
        """
        config = self._request.config
        if config.base_model in MADE_BASES:
            return None
        return footprint(base_checkpoint(config.base_model), config)

    def train_settings(self) -> TrainSettings:
        """Return the settings of the update that the config means."""
        from trainers.hosts.embedded_trainer import TrainSettings

        config = self._request.config
        # The loop itself assigns the credit.
        arguments: dict[str, Any] = train_arguments(
            config, TrainSettings, host="the embedded host", handled=("credit",)
        )
        return TrainSettings(**arguments)

    async def open(self, step: int) -> int:
        self._trainer = self._make_trainer(step)
        self._trainer.open()
        if self._remote is not None:
            await self._remote.connect()
        return self._trainer.step

    def _make_trainer(self, step: int) -> EmbeddedTrainer:
        from trainers.algorithms.lora import Lora

        config = self._request.config
        rank = config.trained_rank
        options: dict[str, Any] = {
            "checkpoints": RunFiles(self._request.folder).checkpoints,
            "base_model": find_checkpoint(config.base_model),
            "name": config.served_name,
            "lora": Lora(rank, LORA_ALPHA, config.seed) if rank else None,
            "device": config.device,
            "context_length": config.max_context_tokens or None,
            "seed": config.seed,
            "first_step": step,
            "precision": "bf16" if config.precision == "bf16" else "float32",
        }
        if config.server:
            self._remote = _remote_trainer(self._request, **options)
            return self._remote
        from trainers.hosts.embedded_trainer import EmbeddedTrainer

        return EmbeddedTrainer(**options)

    async def train(self, groups: Sequence[TrajectoryGroup], kl_reference: int) -> dict[str, float]:
        settings = replace(self.train_settings(), kl_penalty_reference_step=kl_reference)
        return await self.trainer.train(groups, settings)

    def policy(self, step: int | None = None) -> Backend:
        if self._remote is not None:
            return self._remote.policy(step)
        from backends.embedded import SamplerBackend

        trainer = self.trainer
        if step is not None:
            trainer.served_name(step)  # Raises now if the step is not kept.

        # Read at each request: without `step` the answer comes from the newest weights.
        def version() -> int:
            return trainer.step if step is None else step

        return SamplerBackend(trainer.sampler, lambda: trainer.served_name(version()), version)

    def policy_of(self, folder: Path, name: str) -> Backend:
        """Return a backend for a checkpoint that is no step, on the sampler of the steps."""
        from backends.embedded import SamplerBackend
        from backends.embedded.layers import read_state_dict

        sampler = self.trainer.sampler
        sampler.load_adapter_weights(name, read_state_dict(folder))
        return SamplerBackend(sampler, lambda: name)

    async def keep(self, steps: Collection[int]) -> None:
        await self.trainer.keep(steps)

    def checkpoint(self, step: int) -> Path:
        return self.trainer.checkpoint(step)

    async def close(self) -> None:
        if self._trainer is not None:
            await self._trainer.close()


def _remote_trainer(request: HostRequest, **options: Any) -> RemoteTrainer:
    """Return the trainer of the mode of --weight-sync; `options` are those of EmbeddedTrainer."""
    from trainers.weight_sync.adapter_backend import AdapterTrainer
    from trainers.weight_sync.full_weights import CheckpointTrainer, SharedWeightsTrainer

    mode = request.config.weight_sync
    if mode == "none":
        return CheckpointTrainer(request, **options)
    if mode == "shared_vllm":
        return SharedWeightsTrainer(request, **options)
    return AdapterTrainer(request, **options)
