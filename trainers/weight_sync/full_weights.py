"""Servers with one set of full weights, and the two modes that update them.

`none` restarts the run's own server with a checkpoint. `shared_vllm` trains in the memory of vLLM's
weights.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import torch
from pydantic import JsonValue
from torch import Tensor

from arena.core.errors import StopPlaying
from arena.llm.backend import Completion, Request
from backends.embedded import SamplerBackend
from backends.embedded.architecture import Architecture
from backends.provider_errors import extract_message
from trainers.algorithms.learner import Learner
from trainers.hosts.embedded_trainer import EmbeddedTrainer, ReadSequences, TrainSettings
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.adapter_server import send_request
from trainers.weight_sync.proven_server import PROBE, Chat, ProbeReply, ProvenServer
from trainers.weight_sync.remote import RemoteTrainer
from trainers.weight_sync.vllm_plugin.arena_vllm import map_file, open_cuda


class FullWeightsTrainer(RemoteTrainer):
    """Trains here; the server has the weights of one step, and this process answers for others.

    Other steps are those of earlier checkpoints, as opponents and in held-out evaluations.
    """

    def __init__(self, request: HostRequest, **options: Any) -> None:
        """Load the base model; `options` are the arguments of `EmbeddedTrainer`."""
        super().__init__(request, **options)
        self._served_step: int | None = None
        """The step that the server was proven to have; None: not known."""

    def policy(self, step: int | None) -> SplitPolicy:
        """Return a backend for the weights of a step. Raises UsageError if it is not kept."""
        (hosted,) = self._policies(step)
        return SplitPolicy(self, hosted, step)

    async def complete_here(self, step: int, request: Request) -> Completion:
        """Answer in this process with the weights of a step. Raises as SamplerBackend does."""
        name = f"{self.name}@{step}"
        if name not in self.sampler.adapters:
            EmbeddedTrainer._serve(self, step, self._weights(step))
        self._last_requests[step] = time.monotonic()
        # Its base weights are step 0, but the adapters of this sampler hold all weights anyway.
        answering = SamplerBackend(self.sampler, lambda: name, lambda: step)
        return await answering.complete(request)

    def has(self, step: int) -> bool:
        """Return whether the server answers for this step."""
        # Before a lost server is back, its step is that of the newest policy.
        return step == (self.sampling_step if self._served_step is None else self._served_step)

    async def _make_available(self, server: ProvenServer, step: int | None) -> ServedWeights:
        step = self.sampling_step if step is None else step
        if self._served_step != step:
            await self._reload(server, step)
        return ServedWeights(server.base_name, step)

    async def _reload(self, server: ProvenServer, step: int | None) -> None:
        step = self.sampling_step if step is None else step
        async with server.loading:
            if await server.is_dead():
                self._served_step = None
            if self._served_step != step:
                await self._sync_to_running(server, step, PROBE)


class SplitPolicy:
    """Answers at the server, if it has the weights, and otherwise in this process."""

    def __init__(self, backend: FullWeightsTrainer, hosted: HostedPolicy, step: int | None) -> None:
        self.model = hosted.model
        self.context_length = hosted.context_length
        self._backend = backend
        self._hosted = hosted
        self._step = step

    async def complete(self, request: Request) -> Completion:
        """Return the completion with the `policy_version` of its weights. Raises BackendError."""
        step = self._step if request.policy_version is None else request.policy_version
        if step is None or self._backend.has(step):
            return await self._hosted.complete(request)
        return await self._backend.complete_here(step, replace(request, policy_version=None))

    async def close(self) -> None:
        """Do nothing: the host closes the connections and the sampler."""


class CheckpointTrainer(FullWeightsTrainer):
    """The mode `none`: our own server is restarted with the checkpoint of a step."""

    def _first_folder(self) -> Path:
        return self.checkpoint(self.sampling_step)

    async def _prepare(self, server: ProvenServer) -> None:
        # It was started with this checkpoint, by us.
        await server.calibrate(self.sampling_step)
        await server.prove(server.base_name, self.sampling_step, PROBE)
        self._served_step = self.sampling_step

    async def _revive(self, server: ProvenServer) -> None:
        """Do nothing: `_sync` starts the server in any case."""

    async def _sync(self, server: ProvenServer, step: int, chat: Chat) -> ProbeReply:
        self._served_step = None
        await server.restart(self.checkpoint(step))
        await server.identify()
        reply = await server.prove(server.base_name, step, chat)
        self._served_step = step
        return reply


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
        self, read: ReadSequences, settings: TrainSettings, groups: Sequence[TrajectoryGroup]
    ) -> dict[str, float]:
        # The update is visible to vLLM while it happens; so is the way back from a failed one.
        self._served_step = None
        await self._call("pause?mode=wait")
        try:
            return await super()._train_drained(read, settings, groups)
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
        await self._write(self._learner.merged(), f"{step}")
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
        ours = self._learner.architecture.tensor_shapes()
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
        reply = await asyncio.to_thread(
            send_request, "POST", url, server.key, body, server.start_hint
        )
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
