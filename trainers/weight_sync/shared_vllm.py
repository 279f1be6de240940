"""The mode `shared_vllm`: the optimizer writes into the memory of vLLM's weights."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import torch
from pydantic import JsonValue
from torch import Tensor

from arena.core.errors import StopPlaying
from backends.embedded.architecture import Architecture
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.hosts.host import HostRequest
from trainers.weight_sync.server_bridge import FullWeights
from trainers.weight_sync.vllm_plugin.arena_vllm import map_file, open_cuda
from trainers.weight_sync.weight_proof import PROBE, Chat, ProbeReply

SHARED_MEMORY = Path("/dev/shm")
"""Files here are memory, on Linux."""


class SharedVLLM(FullWeights):
    """A `Bridge` through the memory of vLLM's weights."""

    def __init__(self, request: HostRequest, trainer: EmbeddedTrainer) -> None:
        """Start nothing yet. Raises UsageError if another program uses the port."""
        super().__init__(request, trainer)
        self._views: Mapping[str, Tensor] = {}
        """vLLM's weights by the names of transformers; empty until they are shared."""

    async def start(self) -> None:
        await self._start(self._trainer.base_model)
        await self._attach()
        # The base model first: a server that ran before holds weights of an earlier start.
        await self._write(self._trainer.weights(0), "0")
        await self.proof.calibrate(self.base_name, 0)
        await self._transfer(self._trainer.step, PROBE)

    @asynccontextmanager
    async def updating(self) -> AsyncIterator[None]:
        """Pause vLLM: it sees the update while it happens, and the way back from a failed one."""
        await self._call("pause?mode=wait")
        try:
            yield
        finally:
            # A failed update has read the last checkpoint into other tensors.
            self._alias()
            await self._call("resume")

    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        """Write the learner's weights, which are those of `step`, and prove that vLLM has them."""
        await self._write(self._trainer.learner.merged(), f"{step}")
        # Now the trained tensors become vLLM's: from here on there is one copy.
        self._alias()
        return await self.proof.prove(self.base_name, step, chat)

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
        self._views = trainer_views(parameters, self._trainer.learner.architecture)
        self._check_views()

    def _check_views(self) -> None:
        """Raise StopPlaying unless vLLM has the tensors of the base model."""
        ours = self._trainer.learner.architecture.tensor_shapes()
        theirs = {name: tuple(view.shape) for name, view in self._views.items()}
        different = sorted(
            name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)
        )
        if different:
            name, server = different[0], self.server
            self._views = {}
            raise StopPlaying(
                f"{server.url} holds another model than --base-model {self._trainer.base_model}: "
                f"{name} is {theirs.get(name, 'missing')} there and {ours.get(name, 'missing')} "
                f"here; {server.start_hint}"
            )

    def _alias(self) -> None:
        """Move the trained tensors into the shared memory, where they have vLLM's type."""
        for name, tensor in self._trainer.learner.trained.items():
            view = self._views.get(name)
            # An adapter's factors have no counterpart, and bfloat16 would lose small steps.
            if view is None or view.dtype != tensor.dtype or tensor.data_ptr() == view.data_ptr():
                continue
            with torch.no_grad():
                view.copy_(tensor)
            # The tensor object stays the same, which the optimizer refers to.
            tensor.data = view

    async def _call(self, route: str, body: JsonValue = None) -> None:
        """Call one of vLLM's routes for training. Raises BackendError, StopPlaying."""
        await asyncio.to_thread(self.server.post, route, body)


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
