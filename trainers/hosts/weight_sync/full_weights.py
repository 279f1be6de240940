"""Servers with one set of full weights, and the mode `none`, which restarts them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from arena.llm.backend import Completion, Request
from backends.embedded import SamplerBackend
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights
from trainers.hosts.weight_sync.proven_server import ProvenServer
from trainers.hosts.weight_sync.remote import RemoteTrainer
from trainers.hosts.weight_sync.weight_probe import PROBE, Chat, ProbeReply


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
