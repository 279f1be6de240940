"""How the weights of training steps reach what answers the games.

A host trains and saves with an `EmbeddedTrainer`, and lets its weights answer through a `Bridge`.

in_process    the sampler of this process
lora_only     the server loads the adapter of each step over HTTP
lora_restart  the run's own server is restarted before it loads the adapter
none          the run's own server is restarted with the full checkpoint
shared_vllm   the optimizer writes into the memory of vLLM's weights
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from arena.llm.backend import Backend
from backends.embedded import SamplerBackend, ServedVersions
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.trajectory import TrajectoryGroup


class Bridge(Protocol):
    """Lets the weights of training steps answer. Used in one event loop: `start` first."""

    async def start(self) -> None:
        """Let the weights of the trainer's step answer.

        Raises:
            UsageError: another program uses the port of the run's own server.
            StopPlaying: the server holds another model, or does not answer with given weights.
        """

    def updating(self) -> AbstractAsyncContextManager[None]:
        """Surround an update of the weights."""

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        """Let the weights of a step that was just trained answer for the newest policy.

        At a server, a reply to a chat of the games proves them. Returns metrics. Raises StopPlaying
        if other weights answer: training would learn from games that they have played.
        """

    def policy(self, step: int | None) -> Backend:
        """Return a backend for the weights of a step; None: the newest that were published.

        Raises UsageError for a step that is not kept.
        """

    async def keep(self, steps: Collection[int]) -> None:
        """Let go of the weights of all steps but these."""

    async def close(self) -> None:
        """Stop the run's own server, and close the connections."""


class InProcess:
    """A `Bridge` to the sampler of this process: new weights are copied into it as `NAME@STEP`."""

    def __init__(self, trainer: EmbeddedTrainer) -> None:
        self.trainer = trainer
        self.served = ServedVersions(trainer.sampler, trainer.name, trainer.weights)

    async def start(self) -> None:
        await self._serve_newest()

    @asynccontextmanager
    async def updating(self) -> AsyncIterator[None]:
        """Do nothing: the sampler has a copy of the weights."""
        yield

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        await self._serve_newest()
        self.served.evict(self.trainer.step)
        return {}

    def policy(self, step: int | None) -> SamplerBackend:
        if step is not None:
            self.served.name(step)  # Raises now if the step is not kept.

        # Read at each request: without `step` the answer comes from the newest weights.
        def weights(_: int | None) -> tuple[str, int]:
            played = self.trainer.step if step is None else step
            return self.served.name(played), played

        return SamplerBackend(self.trainer.sampler, weights)

    async def keep(self, steps: Collection[int]) -> None:
        self.served.keep({0, self.trainer.step, *steps})

    async def close(self) -> None:
        """Do nothing: the trainer closes its sampler."""

    async def _serve_newest(self) -> None:
        # In a thread: the sampler copies all weights.
        trainer = self.trainer
        await asyncio.to_thread(lambda: self.served.load(trainer.step, trainer.learner.merged()))
