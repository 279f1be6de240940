"""The embedded host: weights and trainer in this process, on a CPU or CUDA."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from arena.agents.notebook import NOTES
from arena.core.errors import UsageError
from arena.llm.backend import Backend
from arena.plugins.catalog import require
from backends.embedded import find_checkpoint
from backends.embedded.architecture import read_architecture, weight_files
from trainers.config.config import (
    GAMES_AT_ONCE,
    LORA_ALPHA,
    MADE_BASES,
    NOTEBOOK,
    NOTEBOOK_TOKENS,
    OWNED_SERVERS,
    REPLY_TOKENS,
    TrainConfig,
    UpdateOptions,
)
from trainers.hosts.host import HostRequest, require_open
from trainers.runs.records import RunFiles
from trainers.trajectory import TokenSequence, TrajectoryGroup

if TYPE_CHECKING:
    from trainers.hosts.embedded_trainer import Bridge, EmbeddedTrainer

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
            base_checkpoint(config.base_model)
        if config.server not in ("", *OWNED_SERVERS):
            # Needs httpx, as nothing does that answers in this process.
            from trainers.weight_sync.model_server import check_server

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
            precision=config.precision,
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
        from trainers.hosts.embedded_trainer import InProcess

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


def check_device(device: str) -> None:
    """Raise UsageError for a --device that does not exist here."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise UsageError(f"--device {device}: choose auto, cpu, cuda or cuda:NUMBER")
    if device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            raise UsageError(f"--device {device}: torch finds no CUDA device; leave the flag out")


def base_checkpoint(base_model: str) -> Path:
    """Return the folder of a --base-model that this process can train, without loading it.

    Raises UsageError: see `find_checkpoint`; or the family is not supported, or has no weights.
    """
    folder = find_checkpoint(base_model, "--base-model ")
    read_architecture(folder)
    weight_files(folder)
    return folder


def games_at_once(config: TrainConfig, chats: int) -> int:
    """Return how many games to play at the same time, in each of which the model has `chats` chats.

    On the embedded host they are no more than the sampler's cache holds: with more, it would lose
    each chat before its next turn, and read it again.
    """
    most = GAMES_AT_ONCE
    if config.trainer_host != "embedded" or config.server or config.base_model in MADE_BASES:
        return most
    architecture = read_architecture(base_checkpoint(config.base_model))
    kept = architecture.cache_chats(config.max_context_tokens, _cuda_memory(config.device))
    return min(most, max(1, kept // chats))


def reply_tokens(config: TrainConfig) -> int:
    """Return the longest reply in tokens, which fits the base model."""
    keeps_notebook = config.base_model == NOTEBOOK
    if config.trainer_host == "embedded" and config.base_model not in MADE_BASES:
        # Its tokenizer has a token for the beginning of an entry, as have all its checkpoints.
        file = find_checkpoint(config.base_model, "--base-model ") / "tokenizer.json"
        keeps_notebook = file.exists() and json.dumps(NOTES) in file.read_text("utf-8")
    return config.max_tokens or (NOTEBOOK_TOKENS if keeps_notebook else REPLY_TOKENS)


def _cuda_memory(device: str) -> int:
    """Return the bytes of memory of a CUDA device; 0 if the run computes on the CPU."""
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return 0
    index = torch.device("cuda" if device == "auto" else device).index or 0
    return torch.cuda.get_device_properties(index).total_memory
