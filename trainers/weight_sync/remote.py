"""Training in this process while servers answer: what all modes of --weight-sync share.

After a transfer of weights, the first reply of each server must have the log-probabilities that the
new weights give it here. If not, training stops, because it would learn from games that other
weights have played. Until the next transfer (sync_every) these weights play, and their version
and log-probabilities are recorded with each reply, so that the loss corrects for their age.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_exponential
from torch import Tensor

from arena.core.errors import BackendError, StopPlaying, UsageError
from arena.llm.backend import Backend
from trainers.config.config import OWNED_SERVERS
from trainers.hosts.embedded_trainer import EmbeddedTrainer, ReadSequences, TrainSettings
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights, SeveralServers, inference_server
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.adapter_server import adapters_folder, server_urls, start_hint
from trainers.weight_sync.own_server import OwnServer, own_servers
from trainers.weight_sync.proven_server import (
    PROBE,
    RESUME,
    Chat,
    ProbeReply,
    ProvenServer,
    WeightProbe,
    first_chats,
)


class RemoteTrainer(EmbeddedTrainer, ABC):
    """Trains here, and lets the server of --server answer. Subclasses transfer the weights."""

    def __init__(self, request: HostRequest, **options: Any) -> None:
        """Load the base model; `options` are the arguments of `EmbeddedTrainer`.

        Raises UsageError if another program uses the port of the run's own server.
        """
        super().__init__(**options)
        self._request = request
        self._config = request.config
        self._adapters = adapters_folder(request)
        self.context_length = self.sampler.context_length
        key = request.settings.secret("ARENA_API_KEY")
        servers: list[tuple[str, str, OwnServer | None]]
        if request.config.server in OWNED_SERVERS:
            if key is None and request.config.places_servers:
                # Anyone who reaches the node could use the server, or change its weights.
                key = SecretStr(secrets.token_urlsafe(32))
            device = f"{self.sampler.device}"
            own = own_servers(request, self._adapters, device, self.context_length, key)
            servers = [("", f"its log is {request.folder}/server*.log", each) for each in own]
        else:
            urls = server_urls(request.config.server)
            servers = [(url, start_hint(request, url), None) for url in urls]
        self._servers = [
            ProvenServer(
                url,
                key,
                hint,
                own=each,
                base=self._base_model,
                weights=self._weights,
                earlier=self._earlier_steps,
            )
            for url, hint, each in servers
        ]
        """Where games are sampled; several only for adapters."""
        self._patience = request.settings.service.limits("embedded").patience
        """Seconds to wait for a server that does not answer."""

    async def train_sequences(
        self,
        read: ReadSequences,
        settings: TrainSettings,
        groups: Sequence[TrajectoryGroup] = (),
    ) -> dict[str, float]:
        """Do one training step; it is finished when the server has answered with its weights."""
        played = self.sampling_step
        metrics = await self._train_drained(read, settings, groups)
        if self.sampling_step != self.step:
            return metrics
        started = time.perf_counter()
        # Probe with a chat from the games: it is where the new weights matter.
        chat = next(first_chats(groups), PROBE)
        metrics |= await self._transfer(self.step, played, chat)
        metrics["seconds_swapping"] = time.perf_counter() - started
        return metrics

    async def _train_drained(
        self, read: ReadSequences, settings: TrainSettings, groups: Sequence[TrajectoryGroup]
    ) -> dict[str, float]:
        """Do one training step. A subclass pauses the server here if it sees the update at once."""
        return await super().train_sequences(read, settings, groups)

    async def close(self) -> None:
        for server in self._servers:
            await server.close()
        await super().close()

    def _serve(self, step: int, state: Mapping[str, Tensor]) -> None:
        """Do nothing: this process answers no requests for the newest weights."""

    @property
    def sampling_step(self) -> int:
        """Return the step whose weights answer for the newest policy."""
        return self._config.sampling_step(self._step)

    async def connect(self) -> None:
        """Start the servers of our own, and test all before the first game.

        Raises:
            UsageError: another program uses the port.
            StopPlaying: a server holds another model, or does not answer with given weights.
        """
        for server in self._servers:
            await server.place()
        await asyncio.gather(*(s.restart(self._first_folder()) for s in self._servers if s.own))
        key = self._servers[0].key or "unused"
        for server in self._servers:
            probe = WeightProbe(
                inference_server(self._request, "embedded", self.name, server.url, key),
                self.sampler.encode,
                self._learner.architecture,
                self._learner.device,
                server.start_hint,
            )
            listed = await server.connect(probe)
            longest = listed.max_model_len or self.context_length
            self.context_length = min(self.context_length, longest)
            await self._prepare(server)

    @abstractmethod
    async def _prepare(self, server: ProvenServer) -> None:
        """Let the server answer with the weights of `sampling_step`, and prove that it does."""

    @abstractmethod
    async def _sync(self, server: ProvenServer, step: int, chat: Chat) -> ProbeReply:
        """Transfer the weights of a step; returns a reply to the chat that proves them."""

    @abstractmethod
    async def _make_available(self, server: ProvenServer, step: int | None) -> ServedWeights:
        """Let the server answer with the weights of a step; None: those of `sampling_step`."""

    @abstractmethod
    async def _reload(self, server: ProvenServer, step: int | None) -> None:
        """Transfer the weights of a step again if the server has lost them."""

    def policy(self, step: int | None) -> Backend:
        """Return a backend for the weights of a step. Raises UsageError if it is not kept."""
        policies = self._policies(step)
        return policies[0] if len(policies) == 1 else SeveralServers(policies)

    def _policies(self, step: int | None) -> list[HostedPolicy]:
        """Return a backend for each server."""
        # Step 0 is the base model, and needs no checkpoint here.
        if step and step not in self.steps():
            raise UsageError(f"the checkpoint of step {step} is not kept; found {self.steps()}")
        return [
            HostedPolicy(
                server.http,
                partial(self._make_available, server),
                step,
                model=self.name,
                context_length=self.context_length,
                reload=partial(self._reload, server),
                # Only this run restarts its own server.
                reload_on_loss=server.own is not None,
            )
            for server in self._servers
        ]

    # The transfer

    async def _transfer(self, step: int, before: int, chat: Chat) -> dict[str, float]:
        """Transfer a step in place of the step `before` to all servers; return metrics in nats.

        The largest difference of any server, and the least movement.
        """
        try:
            replies = await asyncio.gather(
                *(self._retry(partial(self._transfer_to, s, step, chat)) for s in self._servers)
            )
        except BackendError as error:
            # Not retryable: the step itself is done, and would be done a second time.
            raise StopPlaying(f"{error}; {RESUME}") from None
        # Read late and in a thread: each is a file of the size of the model.
        new, old = partial(self._weights, step), partial(self._weights, before)
        pairs = list(zip(self._servers, replies, strict=True))
        return {
            "swap_difference": max([await s.probe.difference(reply, new) for s, reply in pairs]),
            "swap_moved": min([await s.probe.distance(reply, new, old) for s, reply in pairs]),
        }

    async def _transfer_to(self, server: ProvenServer, step: int, chat: Chat) -> ProbeReply:
        async with server.loading:
            return await self._sync_to_running(server, step, chat)

    async def _sync_to_running(self, server: ProvenServer, step: int, chat: Chat) -> ProbeReply:
        if await server.is_dead():
            await self._revive(server)
        return await self._sync(server, step, chat)

    def _earlier_steps(self, step: int) -> set[int]:
        """Return the steps whose weights a server may still have in place of those of a step."""
        return {self._config.sampling_step(step - 1), step - 1, 0} & {0, *self.steps()}

    # Servers of our own

    def _first_folder(self) -> Path:
        """Return the folder of the checkpoint with which our own servers start."""
        return self._base_model

    async def _revive(self, server: ProvenServer) -> None:
        """Start our own server again after it has ended. The weights are transferred later."""
        await server.restart(self._first_folder())

    async def _retry(self, do: Callable[[], Awaitable[ProbeReply]]) -> ProbeReply:
        """Repeat while the server is being restarted, for at most `patience` seconds."""
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(lambda error: getattr(error, "retryable", False)),
            stop=stop_after_delay(self._patience),
            wait=wait_exponential(multiplier=0.25, max=5),
            reraise=True,
        ):
            with attempt:
                return await do()
        raise AssertionError("tenacity raises the error of the last attempt")
