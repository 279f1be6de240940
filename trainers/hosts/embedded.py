"""The embedded host: weights and trainer in this process, on a CPU or CUDA."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from arena.llm.backend import Backend
from arena.plugins.catalog import require
from backends.embedded import find_checkpoint
from trainers.config.config import LORA_ALPHA, MADE_BASES, OWNED_SERVERS, UpdateOptions
from trainers.hosts.host import HostRequest, require_open
from trainers.hosts.selection import base_checkpoint, check_device, check_fits
from trainers.runs.records import RunFiles
from trainers.trajectory import TokenSequence, TrajectoryGroup
from trainers.weight_sync.model_server import check_own_server, check_server

if TYPE_CHECKING:
    from trainers.hosts.embedded_trainer import EmbeddedTrainer
    from trainers.weight_sync.bridge import Bridge

PACKAGES = ("safetensors", "tokenizers", "torch")


class EmbeddedHost:
    """A `TrainingHost` that trains here; its weights answer through a `Bridge`."""

    name = "embedded"

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._trainer: EmbeddedTrainer | None = None
        self._bridge: Bridge | None = None

    @property
    def trainer(self) -> EmbeddedTrainer:
        """Return the holder of the weights. Raises ArenaError before `open`."""
        return require_open(self._trainer)

    @property
    def bridge(self) -> Bridge:
        """Return the way of the weights to what answers. Raises ArenaError before `open`."""
        return require_open(self._bridge)

    def preflight(self) -> None:
        require("the embedded host", PACKAGES, "train")
        config = self._request.config
        # The model from scratch is made after the preflight, so its files do not exist yet.
        check_device(config.device)
        if config.base_model not in MADE_BASES:
            check_fits(base_checkpoint(config.base_model), config)
        if config.server in OWNED_SERVERS:
            check_own_server(config)
        elif config.server:
            check_server(self._request)

    async def open(self, step: int) -> int:
        from trainers.algorithms.lora import Lora
        from trainers.hosts.embedded_trainer import EmbeddedTrainer

        config = self._request.config
        rank = config.trained_rank
        self._trainer = EmbeddedTrainer(
            RunFiles(self._request.folder).checkpoints,
            find_checkpoint(config.base_model),
            name=config.experiment,
            device=config.device,
            lora=Lora(rank, LORA_ALPHA, config.seed) if rank else None,
            context_length=config.max_context_tokens or None,
            seed=config.seed,
            first_step=step,
            precision="bf16" if config.precision == "bf16" else "float32",
        )
        self._bridge = make_bridge(self._request, self._trainer)
        await self._bridge.start()
        return self._trainer.step

    async def train(self, groups: Sequence[TrajectoryGroup], kl_reference: int) -> dict[str, float]:
        options = self._request.config.update
        options = replace(options, kl_penalty_reference_step=kl_reference)
        async with self.bridge.updating():
            metrics = await self.trainer.train(groups, options)
        return metrics | await self.bridge.publish(self.trainer.step, groups)

    async def train_sequences(
        self, sequences: Sequence[TokenSequence], options: UpdateOptions
    ) -> dict[str, float]:
        """Do what `train` does, on sequences of games that were played elsewhere."""
        async with self.bridge.updating():
            metrics = await self.trainer.train_sequences(lambda: sequences, options)
        return metrics | await self.bridge.publish(self.trainer.step, ())

    def policy(self, step: int | None = None) -> Backend:
        return self.bridge.policy(step)

    async def keep(self, steps: Collection[int]) -> None:
        self.trainer.keep(steps)
        await self.bridge.keep(self.trainer.steps())

    def checkpoint(self, step: int) -> Path:
        return self.trainer.checkpoint(step)

    async def close(self) -> None:
        if self._bridge is not None:
            await self._bridge.close()
        if self._trainer is not None:
            await self._trainer.close()


def make_bridge(request: HostRequest, trainer: EmbeddedTrainer) -> Bridge:
    """Return the bridge of --server and --weight-sync, not started."""
    if not request.config.server:
        from trainers.weight_sync.bridge import InProcess

        return InProcess(trainer)
    from trainers.weight_sync import server_bridge

    match request.config.weight_sync:
        case "lora_only":
            return server_bridge.LoraOnly(request, trainer)
        case "lora_restart":
            return server_bridge.LoraRestart(request, trainer)
        case "none":
            return server_bridge.CheckpointRestart(request, trainer)
        case "shared_vllm":
            from trainers.weight_sync.shared_vllm import SharedVLLM

            return SharedVLLM(request, trainer)
