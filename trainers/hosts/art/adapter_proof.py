"""Proof that ART's vLLM answers with the adapters that ART has trained.

It is the test of `--weight-sync`: a greedy reply of the server must have the log-probabilities that
the base model with the adapter gives it here, on the CPU, since the GPU is in use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from arena.core.errors import ArenaError, BackendError, StopPlaying
from backends.embedded.architecture import parse_architecture, read_model_config
from backends.embedded.layers import adapt, read_state_dict
from backends.embedded.tokenizer import ChatTokenizer
from backends.openai_http import HTTPBackend
from trainers.hosts.art.art_host import ErrorTranslatingBackend, require_open
from trainers.hosts.art.classes import TrainResult, TrajectoryGroup
from trainers.hosts.art.convert import from_art
from trainers.weight_sync.proven_server import EXACT, PROBE, RESUME, Chat, WeightProbe, first_chats

if TYPE_CHECKING:
    import art

CHECKPOINT_FILES = ["*.json", "*.jinja", "*.safetensors"]
"""Files of a model at the hub that a proof reads."""


class AdapterProof:
    """Compares the replies of a server with the adapters on disk.

    `base` is the id of the base model at the Hugging Face hub, or its folder; ART loads the same
    files. `folder` returns the folder of a step's adapter, or None without one. Raises ArenaError
    if the base model cannot be read or fetched, and UsageError if its family is not supported, so
    that nothing could be proven.
    """

    def __init__(self, base: str, folder: Callable[[int], Path | None]) -> None:
        self._base = base_folder(base)
        self._folder = folder
        config = read_model_config(self._base)
        self._architecture = parse_architecture(config, f"{self._base}")
        self._encode = ChatTokenizer(self._base, config).encode
        self._connected: WeightProbe | None = None
        self._tolerance = EXACT

    async def connect(self, http: HTTPBackend, name: str, step: int) -> None:
        """Set the tolerance by the server's rounding, with the adapter that it started with.

        Raises StopPlaying if it answers with other weights.
        """
        device = torch.device("cpu")
        hint = "--trainer-host local needs the vLLM of openpipe-art[backend]"
        self._connected = WeightProbe(http, self._encode, self._architecture, device, hint)
        expected = f"{self._base} with the adapter of step {step}"
        read = partial(self._weights, step)
        self._tolerance = await self._connected.calibrate(name, read, expected)

    async def prove(
        self, name: str, step: int, before: int, chat: Chat = PROBE
    ) -> dict[str, float]:
        """Prove that `name` answers a chat with the adapter of a step; returns metrics in nats.

        The change is measured from the step that answered `before`. Raises StopPlaying if it
        answers with other weights, or not at all.
        """
        probe, started = require_open(self._connected), time.perf_counter()
        try:
            reply = await probe.request(name, chat)
        except BackendError as error:
            # Not retryable: the step itself is done, and would be done a second time.
            raise StopPlaying(f"{error}; {RESUME}") from None
        # ART renames the adapter if no game gave a gradient: then nothing has changed.
        before = step if self._folder(before) is None else before
        new, old = partial(self._weights, step), partial(self._weights, before)
        return {
            "swap_difference": await probe.prove(
                reply, step, self._weights, self._tolerance, {before: f"step {before}"}
            ),
            "swap_moved": await probe.distance(reply, new, old),
            "seconds_proving": time.perf_counter() - started,
        }

    def _weights(self, step: int) -> dict[str, Tensor]:
        """Return the base model beside the adapter of a step; the probe converts each matrix."""
        folder = self._folder(step)
        if folder is None:
            raise StopPlaying(f"ART has written no adapter of step {step}; {RESUME}")
        return adapt(read_state_dict(self._base), folder)


class ProvenBackend(ErrorTranslatingBackend):
    """ART's LocalBackend; a step is finished when vLLM has answered with its adapter."""

    def __init__(self, inner: art.Backend, name: str, hint: str, proof: AdapterProof) -> None:
        """`name` starts each message of an error and `hint` ends it."""
        super().__init__(inner, name, hint)
        self._proof = proof

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
        name = model.get_inference_name(result.step)
        # Probe with a chat from the games: it is where the new weights matter.
        chat = next(first_chats(map(from_art, groups)), PROBE)
        metrics = await self._proof.prove(name, result.step, before, chat)
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
