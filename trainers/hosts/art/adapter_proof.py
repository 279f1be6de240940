"""Proof that ART's vLLM answers with the adapters that ART has trained.

It is the test of `--weight-sync`: a greedy reply of the server must have the log-probabilities that
the base model with the adapter gives it here, on the CPU, since the GPU is in use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from arena.core.errors import ArenaError, BackendError, StopPlaying
from backends.embedded.architecture import parse_architecture, read_model_config
from backends.embedded.layers import adapt, read_state_dict
from backends.embedded.tokenizer import ChatTokenizer
from trainers.hosts.art.art_host import ErrorTranslatingBackend
from trainers.hosts.art.classes import TrainResult, TrajectoryGroup
from trainers.hosts.art.convert import from_art
from trainers.weight_sync.weight_proof import RESUME, KnownWeights, WeightProof, first_chat

if TYPE_CHECKING:
    import art

CHECKPOINT_FILES = ["*.json", "*.jinja", "*.safetensors"]
"""Files of a model at the hub that a proof reads."""


def adapter_weights(base_model: str, adapter: Callable[[int], Path | None]) -> KnownWeights:
    """Return the weights of a base model with the adapter of each step.

    `base_model` is its id at the Hugging Face hub, or its folder; ART loads the same files.
    `adapter` returns the folder of a step's adapter, or None without one. Raises ArenaError if the
    base model cannot be read or fetched, and UsageError if its family is not supported, so that
    nothing could be proven.
    """
    base = base_folder(base_model)
    config = read_model_config(base)

    def weights(step: int) -> dict[str, Tensor]:
        folder = adapter(step)
        if folder is None:
            raise StopPlaying(f"ART has written no adapter of step {step}; {RESUME}")
        # The base model beside the adapter; the proof converts each matrix.
        return adapt(read_state_dict(base), folder)

    return KnownWeights(
        f"--base-model {base}",
        weights,
        ChatTokenizer(base, config).encode,
        parse_architecture(config, f"{base}"),
        torch.device("cpu"),
    )


class ProvenBackend(ErrorTranslatingBackend):
    """ART's LocalBackend; a step is finished when vLLM has answered with its adapter."""

    proof: WeightProof
    """Comparison of vLLM's replies with the adapters, once the model is registered."""

    def __init__(
        self, inner: art.Backend, name: str, hint: str, adapter: Callable[[int], Path | None]
    ) -> None:
        """`name` starts each message of an error and `hint` ends it."""
        super().__init__(inner, name, hint)
        self._adapter = adapter

    async def train(
        self,
        model: art.TrainableModel[Any, Any],
        trajectory_groups: Iterable[TrajectoryGroup],
        **kwargs: Any,
    ) -> TrainResult:
        """Do one training step. Raises StopPlaying if other weights answer afterwards."""
        groups = list(trajectory_groups)
        before = await self._get_step(model)
        result = await super().train(model, groups, **kwargs)
        started, step = time.perf_counter(), result.step
        # ART renames the adapter if no game gave a gradient: then nothing has changed.
        before = step if self._adapter(before) is None else before
        try:
            chat = first_chat(map(from_art, groups))
            reply = await self.proof.prove(model.get_inference_name(step), step, chat, [before])
        except BackendError as error:
            # Not retryable: the step itself is done, and would be done a second time.
            raise StopPlaying(f"{error}; {RESUME}") from None
        metrics = {
            "swap_difference": await self.proof.difference(reply, step),
            "swap_moved": await self.proof.distance(reply, step, before),
            "seconds_proving": time.perf_counter() - started,
        }
        return replace(result, metrics={**result.metrics, **metrics})


def base_folder(base_model: str) -> Path:
    """Return the folder of a base model; one of the hub is fetched if it is not there yet.

    Raises ArenaError.
    """
    if Path(base_model).is_dir():
        return Path(base_model)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(base_model, allow_patterns=CHECKPOINT_FILES))
    except (OSError, ValueError) as error:
        cause = f"{error}".partition("\n")[0]
    # Outside of `except`, so that the hub's traceback is not the error's context.
    raise ArenaError(
        f"--base-model {base_model}: cannot be fetched ({cause}); give the folder of a copy"
    )
