"""Bridges to a server of full weights: what they share, and the mode `none`.

The server has the weights of one step. This process answers for others: those of earlier
checkpoints, as opponents and in held-out evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from arena.llm.backend import Backend, Completion, Request
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import ServedWeights
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.in_process import InProcess
from trainers.weight_sync.server_bridge import ServerBridge
from trainers.weight_sync.weight_proof import PROBE, Chat, ProbeReply


class FullWeights(ServerBridge):
    """Base of a `Bridge` to a server that has one step's weights."""

    def __init__(self, request: HostRequest, trainer: EmbeddedTrainer) -> None:
        """Start nothing yet. Raises UsageError if another program uses the port."""
        super().__init__(request, trainer)
        self._here = InProcess(trainer)
        self._served: int | None = None
        """The step that the server was proven to have; None: not known."""

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        self._here.evict()
        return await super().publish(step, groups)

    def policy(self, step: int | None) -> Backend:
        return SplitPolicy(super().policy(step), self._here, self._has, step)

    async def keep(self, steps: Collection[int]) -> None:
        await self._here.keep(steps)

    async def _prove_served(self, step: int, chat: Chat) -> ProbeReply:
        reply = await self._prove(self.base_name, step, chat)
        self._served = step
        return reply

    def _has(self, step: int) -> bool:
        """Return whether the server answers for this step."""
        # Before a lost server is back, its step is that of the newest policy.
        return step == (self.newest if self._served is None else self._served)

    async def _serve(self, step: int) -> ServedWeights:
        if self._served != step:
            await self._reload(step)
        return ServedWeights(self.base_name, step)

    async def _reload(self, step: int) -> None:
        async with self._loading:
            if await self.server.is_dead():
                self._served = None
                await self._revive()
            if self._served != step:
                await self._transfer(step, PROBE)


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
        step = self.newest
        await self._start(self._trainer.checkpoint(step))
        # It was started with this checkpoint, by us.
        await self.proof.calibrate(self.base_name, step)
        await self._prove_served(step, PROBE)

    async def _revive(self) -> None:
        """Do nothing: `_transfer` starts the server in any case."""

    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        self._served = None
        await self._restart(self._trainer.checkpoint(step))
        return await self._prove_served(step, chat)
