"""Memory and disk that a training run on the embedded host needs, from the sizes of its model.

It is the most that the parts take together. The longest chats are not known beforehand: a chat of
more than tokens_per_batch tokens has a forward pass of its own and needs more activations.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from arena.core.errors import UsageError
from arena.core.text import size_text
from backends.embedded.architecture import (
    SCORED_LOGITS,
    SERVED_BYTES,
    Architecture,
    read_architecture,
    weight_files,
)
from trainers.algorithms.heap import MOST_FREE
from trainers.config.config import MADE_BASES, TrainConfig
from trainers.hosts.selection import base_checkpoint

LIBRARIES = 350_000_000
"""Memory of a process that has imported arena, torch and, for training, transformers."""
FLOAT = 4
"""Bytes of a number of the trained weights: they are float32, whatever the file holds."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes by what they are for."""

    memory: Mapping[str, int]
    disk: Mapping[str, int]
    step: int
    """Bytes on disk of each earlier checkpoint that is kept."""

    @property
    def memory_bytes(self) -> int:
        """Return the sum of the memory."""
        return sum(self.memory.values())

    @property
    def disk_bytes(self) -> int:
        """Return the sum of the disk space."""
        return sum(self.disk.values())


def footprint(folder: Path, config: TrainConfig) -> Footprint:
    """Estimate a run that starts from the checkpoint in `folder`.

    Raises UsageError for a folder without a checkpoint of a supported family.
    """
    architecture = read_architecture(folder)
    file_bytes = sum(path.stat().st_size for path in weight_files(folder))
    model, rank = FLOAT * architecture.parameters, config.trained_rank
    trained = FLOAT * _adapter_parameters(architecture, rank) if rank else model
    rows = config.tokens_per_batch
    activations = rows * _activations(architecture, config)
    sampled = model // 2 if config.precision == "bf16" else model
    # The sampler keeps the newest step, the starting policy, and others as long as they are small.
    served = 0 if config.server else min(config.total_steps + 1, max(2, SERVED_BYTES // model))
    memory = {
        "libraries": LIBRARIES,
        "sampler": file_bytes + sampled * (1 + served),
        "cache of keys and values": architecture.cache_bytes(
            config.max_context_tokens, _cuda_memory(config.device)
        ),
        # With LoRA float32 weights are used where the file lies in memory.
        "weights": trained + (0 if file_bytes >= model else model) if rank else model,
        "gradients": trained,
        "optimizer": 2 * trained,
        "reference policy": model if config.kl_coef and not rank else 0,
        "merged weights": model if rank else 0,
        "activations": activations,
        "weights in bfloat16": model // 2 if config.precision == "bf16" else 0,
        # Holes of earlier passes.
        "free, not yet returned": min(MOST_FREE, activations),
        # Logits, log-probabilities and their gradients.
        "logits": 4 * FLOAT * min(SCORED_LOGITS, rows * architecture.vocabulary),
    }
    # The newest, the best and the reference of the KL penalty, beside the pool.
    kept = trained * (min(config.keep_pool, config.total_steps) + 2)
    # A checkpoint replaces the newest one when it is complete, so there are two for a moment.
    disk = {"checkpoints": kept, "newest with its optimizer, twice": 2 * 3 * trained}
    return Footprint({n: size for n, size in memory.items() if size}, disk, trained)


def games_at_once(config: TrainConfig, chats: int) -> int:
    """Return how many games to play at the same time, in each of which the model has `chats` chats.

    On the embedded host they are no more than the sampler's cache holds: with more, it would lose
    each chat before its next turn, and read it again.
    """
    most = config.max_concurrent
    if config.trainer_host != "embedded" or config.server or config.base_model in MADE_BASES:
        return most
    architecture = read_architecture(base_checkpoint(config.base_model))
    kept = architecture.cache_chats(config.max_context_tokens, _cuda_memory(config.device))
    return min(most, max(1, kept // chats))


def _adapter_parameters(architecture: Architecture, rank: int) -> int:
    """Return the numbers of A [rank, inputs] and B [outputs, rank] of all adapted matrices."""
    # All matrices of the layers; biases and norms have one axis.
    shapes = architecture.tensor_shapes().items()
    return rank * sum(sum(shape) for name, shape in shapes if ".layers." in name and shape[1:])


def _activations(architecture: Architecture, config: TrainConfig) -> int:
    """Return the bytes that one token of a forward pass keeps for the backward pass."""
    queries = architecture.heads * architecture.head_dim
    keys = architecture.kv_heads * architecture.head_dim
    # Per layer: two norms' inputs and outputs; queries, the result of attention and its copy; keys
    # and values; gate, silu(gate), up and their product. Norms of heads keep their input.
    layer = 4 * architecture.width + 3 * queries + 2 * keys + 4 * architecture.inner
    layer += (queries + keys) * architecture.head_norms
    # The backward pass of a layer has gradients of about the same size. With recomputation only the
    # input of each layer is kept, and one layer is whole.
    kept = architecture.width if config.gradient_checkpointing else layer
    floats = architecture.layers * kept + 2 * layer
    # With bfloat16 only the sum through the layers and norms stay in float32.
    return round(floats * FLOAT * (0.6 if config.precision == "bf16" else 1))


def check_fits(needed: Footprint, config: TrainConfig, folder: Path) -> None:
    """Raise UsageError if the memory, or the free disk of a run's folder, is too small."""
    memory, where = _memory(config.device)
    if needed.memory_bytes > memory:
        largest = max(needed.memory, key=needed.memory.__getitem__)
        raise UsageError(
            f"training needs about {size_text(needed.memory_bytes)} of memory, and {where} has "
            f"{size_text(memory)}; the largest part is {largest} "
            f"({size_text(needed.memory[largest])}): try --lora-rank 8, --set "
            "gradient_checkpointing=true, --set tokens_per_batch=1024 or a smaller --base-model"
        )
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    # Checkpoints of earlier steps are a part of what is needed.
    present = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    free = shutil.disk_usage(existing).free + present
    if needed.disk_bytes > free:
        raise UsageError(
            f"checkpoints need about {size_text(needed.disk_bytes)} of disk, and {size_text(free)} "
            f"are free in {existing}: try --set keep_pool=1, --lora-rank 8 or another --log-dir"
        )


def _memory(device: str) -> tuple[int, str]:
    """Return the bytes of memory in which the device computes, and its name."""
    if memory := _cuda_memory(device):
        return memory, f"GPU {device.partition(':')[2] or 0}"
    return psutil.virtual_memory().total, "this machine"


def _cuda_memory(device: str) -> int:
    """Return the bytes of memory of a CUDA device; 0 if the run computes on the CPU."""
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return 0
    index = torch.device("cuda" if device == "auto" else device).index or 0
    return torch.cuda.get_device_properties(index).total_memory
