"""The mode `shared_vllm`: the trainer writes into the memory of vLLM's weights.

vLLM runs the plugin in `vllm_plugin`, which shares its parameters. vLLM keeps some matrices of one
layer as one parameter (`qkv_proj`, `gate_up_proj`); the trainer's tensors are slices of it. Where
the types agree (float32) the trained tensors themselves lie in the shared memory: there is one copy
of the weights, and the optimizer's step is the transfer. Otherwise the weights are written there
after the step. vLLM is paused meanwhile, and then forgets its cached prefixes.

CUDA (IPC handles) has not been run.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import torch
from pydantic import JsonValue
from torch import Tensor

from arena.core.errors import BackendError, StopPlaying
from backends.embedded.architecture import Architecture
from backends.provider_errors import extract_message
from trainers.algorithms.learner import Learner
from trainers.hosts.embedded_trainer import ReadSequences, TrainSettings
from trainers.hosts.host import HostRequest
from trainers.hosts.weight_sync.adapter_server import send_request
from trainers.hosts.weight_sync.full_weights import FullWeightsTrainer
from trainers.hosts.weight_sync.proven_server import ProvenServer
from trainers.hosts.weight_sync.vllm_plugin.arena_vllm import map_file, open_cuda
from trainers.hosts.weight_sync.weight_probe import PROBE, Chat, ProbeReply

SHARED_MEMORY = Path("/dev/shm")
"""Files here are memory, on Linux."""


class SharedWeightsTrainer(FullWeightsTrainer):
    """Trains in the memory from which vLLM reads its weights."""

    def __init__(self, request: HostRequest, **options: Any) -> None:
        """Load the base model; `options` are the arguments of `EmbeddedTrainer`."""
        self._views: Mapping[str, Tensor] = {}
        """vLLM's weights by the names of transformers; empty until they are shared."""
        super().__init__(request, **options)

    async def _prepare(self, server: ProvenServer) -> None:
        await self._attach()
        # The base model first: a server that ran before holds weights of an earlier start.
        await self._write(self._weights(0), "0")
        await server.calibrate(0)
        await self._sync(server, self._step, PROBE)

    async def _revive(self, server: ProvenServer) -> None:
        self._views = {}
        await super()._revive(server)
        await self._attach()

    async def _train_drained(
        self, read: ReadSequences, settings: TrainSettings
    ) -> dict[str, float]:
        # The update is visible to vLLM while it happens; so is the way back from a failed one.
        self._served_step = None
        await self._call("pause?mode=wait")
        try:
            return await super()._train_drained(read, settings)
        finally:
            if not await self._servers[0].is_dead():
                await self._call("resume")

    def _learner_at(self, step: int) -> Learner:
        """Return a learner with the weights after a step, which are vLLM's weights from now on."""
        learner = super()._learner_at(step)
        self._alias(learner)
        return learner

    async def _sync(self, server: ProvenServer, step: int, chat: Chat) -> ProbeReply:
        """Write the learner's weights, which are those of `step`, and prove that vLLM has them."""
        self._served_step = None
        await self._write(self._learner.weights(), f"{step}")
        # Now the trained tensors become vLLM's: from here on there is one copy.
        self._alias(self._learner)
        reply = await server.prove(server.base_name, step, chat)
        self._served_step = step
        return reply

    async def _write(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Write weights that do not lie in the shared memory yet; forget what depends on old ones.

        Raises StopPlaying for weights of another shape.
        """
        await self._call("pause?mode=wait")
        try:
            await self._call("start_weight_update")
            with torch.no_grad():
                for name, view in self._views.items():
                    if weights[name].data_ptr() != view.data_ptr():
                        view.copy_(weights[name])
            await self._call("finish_weight_update", {"weight_version": version})
            await self._call("reset_prefix_cache")
        finally:
            await self._call("resume")

    async def _attach(self) -> None:
        """Let vLLM share its weights, and map them."""
        root = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        # mkdtemp gives a folder that only this user can read.
        with tempfile.TemporaryDirectory(prefix="arena-weights-", dir=root) as name:
            await self._call("pause?mode=wait")
            try:
                await self._call("init_weight_transfer_engine", {"init_info": {"folder": name}})
            finally:
                await self._call("resume")
            parameters = await asyncio.to_thread(open_parameters, Path(name))
            # The files lose their names here. Their memory stays until both processes have ended,
            # however they end.
        self._views = trainer_views(parameters, self._learner.architecture)
        self._check_views()

    def _check_views(self) -> None:
        """Raise StopPlaying unless vLLM has the tensors of the base model."""
        ours = {name: tuple(tensor.shape) for name, tensor in self._learner.weights().items()}
        theirs = {name: tuple(view.shape) for name, view in self._views.items()}
        different = sorted(
            name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)
        )
        if different:
            name, server = different[0], self._servers[0]
            self._views = {}
            raise StopPlaying(
                f"{server.url} holds another model than --base-model {self._base_model}: "
                f"{name} is {theirs.get(name, 'missing')} there and {ours.get(name, 'missing')} "
                f"here; {server.start_hint}"
            )

    def _alias(self, learner: Learner) -> None:
        """Move the trained tensors into the shared memory, where they have vLLM's type."""
        for name, tensor in learner._trained.items():
            view = self._views.get(name)
            # An adapter's factors have no counterpart, and bfloat16 would lose small steps.
            if view is None or view.dtype != tensor.dtype:
                continue
            with torch.no_grad():
                view.copy_(tensor)
            # The tensor object stays the same, which the optimizer refers to.
            tensor.data = view

    async def _call(self, route: str, body: JsonValue = None) -> None:
        """Call one of vLLM's routes for training. Raises BackendError, StopPlaying."""
        # These routes are beside /v1.
        server = self._servers[0]
        url = f"{server.url.removesuffix('/v1')}/{route}"
        reply = await asyncio.to_thread(send_request, "POST", url, server.key, body)
        if isinstance(reply, str):
            message = f"nothing answers at {url} ({reply}); {server.start_hint}"
            raise BackendError(message, "connection", retryable=True)
        if reply.status_code != 200:
            cause = extract_message(reply.text) or f"{reply.status_code}"
            raise StopPlaying(f"{url}: {cause}; {server.start_hint}")


class ParameterDescription(TypedDict, total=False):
    """Entry of `parameters.json`; see the plugin."""

    shape: list[int]
    dtype: str
    file: str
    cuda: dict[str, Any]


def open_parameters(folder: Path) -> dict[str, Tensor]:
    """Return vLLM's parameters, which the plugin has described in this folder."""
    described: dict[str, ParameterDescription] = json.loads(
        (folder / "parameters.json").read_text("utf-8")
    )
    opened = {}
    for name, each in described.items():
        dtype = getattr(torch, each["dtype"])
        if "file" in each:
            opened[name] = map_file(folder / each["file"], each["shape"], dtype)
        else:
            opened[name] = open_cuda(each["cuda"], each["shape"], dtype)
    return opened


def trainer_views(
    parameters: Mapping[str, Tensor], architecture: Architecture
) -> dict[str, Tensor]:
    """Return the tensors of transformers' names as views of vLLM's parameters."""
    queries, keys = (
        architecture.heads * architecture.head_dim,
        architecture.kv_heads * architecture.head_dim,
    )
    views: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        if ".qkv_proj." in name:
            parts = zip("qkv", torch.split(parameter, [queries, keys, keys]), strict=True)
            views |= {name.replace("qkv_proj", f"{part}_proj"): view for part, view in parts}
        elif ".gate_up_proj." in name:
            halves = zip(("gate", "up"), parameter.chunk(2), strict=True)
            views |= {name.replace("gate_up", part): view for part, view in halves}
        elif name in ("model.embed_tokens.weight", "lm_head.weight"):
            # vLLM pads the vocabulary to a multiple of 64.
            views[name] = parameter[: architecture.vocabulary]
        else:
            views[name] = parameter
    if architecture.tied:
        views.pop("lm_head.weight", None)
    return views
