"""Bridges to the server of `--server`: what the four modes share.

After a transfer of weights, the first reply of the server must have the log-probabilities that the
new weights give it here. If not, training stops, because it would learn from games that other
weights have played. Until the next transfer (sync_every) these weights play, and their version
and log-probabilities are recorded with each reply, so that the loss corrects for their age.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_exponential

from arena.core.errors import BackendError, StopPlaying, UsageError
from arena.llm.backend import Backend
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights, inference_server
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.model_server import server_of_run
from trainers.weight_sync.weight_proof import (
    RESUME,
    Chat,
    KnownWeights,
    ProbeReply,
    WeightProof,
    first_chat,
)


class ServerBridge(ABC):
    """Base of a `Bridge` to one server; subclasses transfer the weights."""

    def __init__(self, request: HostRequest, trainer: EmbeddedTrainer) -> None:
        """Start nothing yet. Raises UsageError if another program uses the port."""
        sampler, learner = trainer.sampler, trainer.learner
        self.server = server_of_run(request, sampler.device, sampler.context_length)
        self.base_name = ""
        """Name of the server's weights that are no adapter."""
        self._trainer = trainer
        self._config = request.config
        self._patience = request.settings.service.limits("embedded").patience
        """Seconds to wait for a server that does not answer."""
        self._context_length = sampler.context_length
        self._loading = asyncio.Lock()
        """Held while weights are transferred."""
        key = self.server.key or "unused"
        self._http = inference_server(request, "embedded", trainer.name, self.server.url, key)
        base, device = f"--base-model {trainer.base_model}", learner.device
        known = KnownWeights(base, trainer.weights, sampler.encode, learner.architecture, device)
        self.proof = WeightProof(self._http, known, self.server.start_hint)

    @property
    def newest(self) -> int:
        """Step whose weights answer for the newest policy."""
        return self._config.sampling_step(self._trainer.step)

    @abstractmethod
    async def start(self) -> None:
        """See `Bridge`."""

    @asynccontextmanager
    async def updating(self) -> AsyncIterator[None]:
        """Do nothing: the server has weights of its own."""
        yield

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        if self.newest != step:
            return {}
        started = time.perf_counter()
        try:
            reply = await self._publish_patiently(step, first_chat(groups))
        except BackendError as error:
            # Not retryable: the step itself is done, and would be done a second time.
            raise StopPlaying(f"{error}; {RESUME}") from None
        metrics = await self.proof.metrics(reply, step, self._config.sampling_step(step - 1))
        return metrics | {"seconds_swapping": time.perf_counter() - started}

    def policy(self, step: int | None) -> Backend:
        # Step 0 is the base model, and needs no checkpoint here.
        if step and step not in self._trainer.steps():
            raise UsageError(
                f"the checkpoint of step {step} is not kept; found {self._trainer.steps()}"
            )
        return HostedPolicy(
            self._http,
            lambda wanted: self._serve(self.newest if wanted is None else wanted),
            step,
            model=self._trainer.name,
            context_length=self._context_length,
            reload=lambda wanted: self._reload(self.newest if wanted is None else wanted),
            # Only this run restarts its own server.
            reload_on_loss=self.server.own is not None,
        )

    @abstractmethod
    async def keep(self, steps: Collection[int]) -> None:
        """See `Bridge`."""

    async def close(self) -> None:
        await self._http.close()
        if self.server.own is not None:
            await asyncio.to_thread(self.server.own.process.stop)

    @abstractmethod
    async def _revive(self) -> None:
        """Start the run's own server again after it has ended, for a transfer that follows."""

    @abstractmethod
    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        """Transfer the weights of a step; returns a reply to the chat that proves them."""

    @abstractmethod
    async def _serve(self, step: int) -> ServedWeights:
        """Let the server answer with the weights of a step."""

    @abstractmethod
    async def _reload(self, step: int) -> None:
        """Transfer the weights of a step again if the server has lost them."""

    async def _start(self, model: Path) -> None:
        """Start an own server with the checkpoint in a folder, and connect."""
        if self.server.own is not None:
            await self._restart(model)
        else:
            await self._identify()

    async def _restart(self, model: Path) -> None:
        """Start the run's own server again with this checkpoint."""
        assert self.server.own is not None, "the server belongs to someone else"
        await asyncio.to_thread(self.server.own.restart, model)
        await self._identify()

    async def _identify(self) -> None:
        """Ask for the base model's name, which a restart may change, and its context."""
        listed = await asyncio.to_thread(self.server.base_model)
        self.base_name = listed.id
        if listed.max_model_len:
            self._context_length = min(self._context_length, listed.max_model_len)

    async def _prove(self, name: str, step: int, chat: Chat) -> ProbeReply:
        """Return a reply to the chat. Raises StopPlaying unless the step's weights answer."""
        # Weights that the server may still have in their place.
        earlier = {self._config.sampling_step(step - 1), step - 1, 0}
        kept = {0, *self._trainer.steps()}
        return await self.proof.prove(name, step, chat, earlier & kept)

    async def _publish_patiently(self, step: int, chat: Chat) -> ProbeReply:
        """Repeat while the server is being restarted, for at most `patience` seconds."""
        return await AsyncRetrying(
            retry=retry_if_exception(lambda error: getattr(error, "retryable", False)),
            stop=stop_after_delay(self._patience),
            wait=wait_exponential(multiplier=0.25, max=5),
            reraise=True,
        )(partial(self._publish, step, chat))

    async def _publish(self, step: int, chat: Chat) -> ProbeReply:
        async with self._loading:
            if await self.server.is_dead():
                await self._revive()
            return await self._transfer(step, chat)
