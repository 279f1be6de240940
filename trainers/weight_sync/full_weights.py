"""Bridges to one server of full weights: what they share, and the mode `none`.

The server has the weights of one step. This process answers for others: those of earlier
checkpoints, as opponents and in held-out evaluations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

from arena.llm.backend import Backend, Completion, Request
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import ServedWeights
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.in_process import InProcess
from trainers.weight_sync.model_server import ModelServer
from trainers.weight_sync.server_group import ServerGroup
from trainers.weight_sync.weight_proof import PROBE, Chat, ProbeReply, first_chat


class FullWeights(ABC):
    """A `Bridge` to one server; subclasses transfer the weights."""

    def __init__(self, request: HostRequest, trainer: EmbeddedTrainer) -> None:
        """Start nothing yet. Raises UsageError if another program uses a port."""
        self.servers = ServerGroup(request, trainer)
        self._trainer = trainer
        self._here = InProcess(trainer)
        self._served: int | None = None
        """The step that the server was proven to have; None: not known."""

    @property
    def server(self) -> ModelServer:
        """Return the server."""
        return self.servers.only

    @abstractmethod
    async def start(self) -> None:
        """See `Bridge`."""

    @asynccontextmanager
    async def updating(self) -> AsyncIterator[None]:
        """Do nothing: the server has weights of its own."""
        yield

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        self._here.evict()
        if self.servers.newest != step:
            return {}
        return await self.servers.publish(step, partial(self._publish, step, first_chat(groups)))

    def policy(self, step: int | None) -> SplitPolicy:
        (hosted,) = self.servers.policies(step, self._serve, self._reload)
        return SplitPolicy(hosted, self._here, self._has, step)

    async def keep(self, steps: Collection[int]) -> None:
        await self._here.keep(steps)

    async def close(self) -> None:
        await self.servers.close()

    @abstractmethod
    async def _revive(self) -> None:
        """Start the run's own server again after it has ended, for a transfer that follows."""

    @abstractmethod
    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        """Transfer the weights of a step; returns a reply to the chat that proves them."""

    async def _prove(self, step: int, chat: Chat) -> ProbeReply:
        server = self.server
        earlier = self.servers.earlier_steps(step)
        reply = await server.proof.prove(server.base_name, step, chat, earlier)
        self._served = step
        return reply

    async def _publish(self, step: int, chat: Chat, server: ModelServer) -> ProbeReply:
        async with server.loading:
            return await self._transfer_to_running(step, chat)

    async def _transfer_to_running(self, step: int, chat: Chat) -> ProbeReply:
        if await self.server.is_dead():
            await self._revive()
        return await self._transfer(step, chat)

    def _has(self, step: int) -> bool:
        """Return whether the server answers for this step."""
        # Before a lost server is back, its step is that of the newest policy.
        return step == (self.servers.newest if self._served is None else self._served)

    async def _serve(self, server: ModelServer, step: int) -> ServedWeights:
        if self._served != step:
            await self._reload(server, step)
        return ServedWeights(server.base_name, step)

    async def _reload(self, server: ModelServer, step: int) -> None:
        async with server.loading:
            if await server.is_dead():
                self._served = None
            if self._served != step:
                await self._transfer_to_running(step, PROBE)


class SplitPolicy:
    """Answers at the server, if it has the weights, and otherwise in this process."""

    def __init__(
        self, hosted: Backend, here: InProcess, has: Callable[[int], bool], step: int | None
    ) -> None:
        self.model = hosted.model
        self.context_length = hosted.context_length
        self._hosted = hosted
        self._here = here
        self._has = has
        self._step = step

    async def complete(self, request: Request) -> Completion:
        """Return the completion with the `policy_version` of its weights. Raises BackendError."""
        step = self._step if request.policy_version is None else request.policy_version
        if step is None or self._has(step):
            return await self._hosted.complete(request)
        return await self._here.policy(step).complete(request)

    async def close(self) -> None:
        """Do nothing: the host closes the connections and the sampler."""


class CheckpointRestart(FullWeights):
    """The mode `none`: the run's own server is restarted with the checkpoint of a step."""

    async def start(self) -> None:
        step, server = self.servers.newest, self.server
        await self.servers.start(self._trainer.checkpoint(step))
        # It was started with this checkpoint, by us.
        await server.proof.calibrate(server.base_name, step)
        await self._prove(step, PROBE)

    async def _revive(self) -> None:
        """Do nothing: `_transfer` starts the server in any case."""

    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        self._served = None
        await self.server.restart(self._trainer.checkpoint(step))
        await self.server.identify()
        return await self._prove(step, chat)
