"""Training in this process while a server answers: what all modes of --weight-sync share.

After a transfer of weights, the first reply of the server must have the log-probabilities that the
new weights give it here. If not, training stops, because it would learn from games that other
weights have played. Until the next transfer (--sync-every) these weights play, and their version
and log-probabilities are recorded with each reply, so that the loss corrects for their age.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_exponential
from torch import Tensor

from arena.core.errors import BackendError, StopPlaying, UsageError
from arena.llm.backend import Backend
from backends.openai_http import HTTPBackend
from trainers.config.config import OWNED_SERVERS
from trainers.hosts.art import TrainResult, TrajectoryGroup
from trainers.hosts.embedded_backend import AnyModel, EmbeddedArtBackend
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights
from trainers.hosts.train_settings import ReadSequences, TrainSettings
from trainers.hosts.weight_sync.adapter_server import (
    AdapterServer,
    adapter_server,
    adapters_folder,
)
from trainers.hosts.weight_sync.own_server import OwnServer, own_server
from trainers.hosts.weight_sync.weight_probe import (
    ANOTHER_MODEL,
    EXACT,
    PROBE,
    RESUME,
    ROUNDING,
    Chat,
    ProbeReply,
    WeightProbe,
    first_chats,
)


class RemoteBackend(EmbeddedArtBackend, ABC):
    """Trains here, and lets the server of --server answer. Subclasses transfer the weights."""

    def __init__(self, request: HostRequest, **options: Any) -> None:
        """Load the base model; `options` are the arguments of `EmbeddedArtBackend`.

        Raises UsageError if another program uses the port of the run's own server.
        """
        super().__init__(**options)
        self._config = request.config
        self._adapters = adapters_folder(request)
        self.context_length = self.sampler.context_length
        self._own: OwnServer | None = None
        """The server, if this run starts and stops it."""
        if request.config.server in OWNED_SERVERS:
            device = f"{self.sampler.device}"
            self._own = own_server(request, self._adapters, device, self.context_length)
            key = request.settings.secret("ARENA_API_KEY")
            log = f"its log is {request.folder / 'server.log'}"
            self._server = AdapterServer(f"{self._own.process.url}/v1", key, log)
        else:
            self._server = adapter_server(request)
        self._patience = request.settings.service.limits("embedded").patience
        """Seconds to wait for a server that does not answer."""
        self._tolerance = EXACT
        self._base_name = ""
        """Name of the weights at the server that are no adapter."""
        self._loading = asyncio.Lock()
        self._connected: WeightProbe | None = None

    # Methods that ART calls

    async def _prepare_backend_for_training(
        self, model: AnyModel, config: object = None
    ) -> tuple[str, str]:
        return self._server.url, self._server.key or "unused"

    async def train_sequences(
        self,
        read: ReadSequences,
        settings: TrainSettings,
        groups: Sequence[TrajectoryGroup] = (),
    ) -> TrainResult:
        """Do one training step; it is finished when the server has answered with its weights."""
        played = self.sampling_step
        staleness = {"staleness": float(self._step - played)} if self._config.sync_every > 1 else {}
        result = await self._train_drained(read, settings)
        if self.sampling_step != result.step:
            return TrainResult(result.step, {**result.metrics, **staleness})
        started = time.perf_counter()
        # Probe with a chat from the games: it is where the new weights matter.
        chat = next(first_chats(groups), PROBE)
        async with self._loading:
            metrics = await self._transfer(result.step, played, chat)
        metrics["seconds_swapping"] = time.perf_counter() - started
        return TrainResult(result.step, {**result.metrics, **staleness, **metrics})

    async def _train_drained(self, read: ReadSequences, settings: TrainSettings) -> TrainResult:
        """Do one training step. A subclass pauses the server here if it sees the update at once."""
        return await super().train_sequences(read, settings)

    async def close(self) -> None:
        if self._connected is not None:
            await self._connected.http.close()
        if self._own is not None:
            await asyncio.to_thread(self._own.process.stop)
        await super().close()

    def _serve(self, step: int, state: Mapping[str, Tensor]) -> None:
        """Do nothing: this process answers no requests for the newest weights."""

    def _client(self) -> None:
        """Return None: ART makes a client for the server."""

    # Beyond the protocol

    @property
    def sampling_step(self) -> int:
        """Return the step whose weights answer for the newest policy."""
        return self._config.sampling_step(self._step)

    async def connect(self, http: HTTPBackend) -> None:
        """Start the server if it is our own, and test it before the first game.

        Raises:
            UsageError: another program uses the port.
            StopPlaying: the server holds another model, or does not answer with given weights.
        """
        learner, hint = self._learner, self._server.start_hint
        self._connected = WeightProbe(
            http, self.sampler.encode, learner.architecture, learner.device, hint
        )
        if self._own is not None:
            await asyncio.to_thread(self._own.restart, self._first_folder())
        listed = await asyncio.to_thread(self._server.base_model)
        self._base_name = listed.id
        self.context_length = min(self.context_length, listed.max_model_len or self.context_length)
        await self._prepare()

    @abstractmethod
    async def _prepare(self) -> None:
        """Let the server answer with the weights of `sampling_step`, and prove that it does."""

    @abstractmethod
    async def _sync(self, step: int, chat: Chat) -> ProbeReply:
        """Transfer the weights of a step; returns a reply to the chat that proves them."""

    @abstractmethod
    async def _make_available(self, step: int | None) -> ServedWeights:
        """Let the server answer with the weights of a step; None: those of `sampling_step`."""

    @abstractmethod
    async def _reload(self, step: int | None) -> None:
        """Transfer the weights of a step again if the server has lost them."""

    def policy(self, step: int | None) -> Backend:
        """Return a backend for the weights of a step. Raises UsageError if it is not kept."""
        # Step 0 is the base model, and needs no checkpoint here.
        if step and step not in self.steps():
            raise UsageError(f"the checkpoint of step {step} is not kept; found {self.steps()}")
        return HostedPolicy(
            self._probe.http,
            self._make_available,
            step,
            model=self._model_name,
            context_length=self.context_length,
            reload=self._reload,
            # Nobody but this run restarts its own server.
            reload_on_loss=self._own is not None,
        )

    # The transfer

    async def _transfer(self, step: int, before: int, chat: Chat) -> dict[str, float]:
        """Transfer a step in place of the step `before`; return metrics in nats."""
        try:
            reply = await self._retry(lambda: self._sync_to_running(step, chat))
        except BackendError as error:
            # Not retryable: the step itself is done, and would be done a second time.
            raise StopPlaying(f"{error}; {RESUME}") from None
        # Read late and in a thread: each is a file of the size of the model.
        new, old = partial(self._weights, step), partial(self._weights, before)
        return {
            "swap_difference": await self._probe.difference(reply, new),
            "swap_moved": await self._probe.distance(reply, new, old),
        }

    async def _sync_to_running(self, step: int, chat: Chat) -> ProbeReply:
        if self._is_dead():
            await self._revive()
        return await self._sync(step, chat)

    async def _prove(self, name: str, step: int, chat: Chat) -> ProbeReply:
        """Return the reply under this name. Raises StopPlaying unless it is that of the step."""
        reply = await self._probe.request(name, chat)
        difference = await self._probe.difference(reply, partial(self._weights, step))
        # Written so that NaN fails too.
        if not difference <= self._tolerance:
            raise StopPlaying(
                f"{self._server.url} still answers with other weights than those of step {step}: "
                f"the log-probabilities of its first reply differ by {difference:.2g} nats"
                f"{await self._matching_step(reply, step)}. Restart the server and {RESUME}"
            )
        return reply

    async def _matching_step(self, reply: ProbeReply, step: int) -> str:
        """Return which earlier weights the reply matches, for the error message, or ""."""
        earlier_steps = {self._config.sampling_step(step - 1), step - 1, 0} & {0, *self.steps()}
        for earlier in sorted(earlier_steps, reverse=True):
            gap = await self._probe.difference(reply, partial(self._weights, earlier))
            if gap <= self._tolerance:
                return f", and are those of {f'step {earlier}' if earlier else 'the base model'}"
        return ""

    async def _calibrate(self, step: int) -> None:
        """Set the tolerance by the server's rounding, while it must have the weights of a step.

        Raises StopPlaying for another model.
        """
        reply = await self._probe.request(self._base_name)
        difference = await self._probe.difference(reply, partial(self._weights, step))
        if not difference <= ANOTHER_MODEL:
            raise StopPlaying(
                f"{self._server.url} answers with another model ({self._base_name}) than "
                f"--base-model {self._base_model}: the log-probabilities of its reply differ by "
                f"{difference:.2g} nats; {self._server.start_hint}"
            )
        # The weights are equal here, so the difference is rounding alone.
        self._tolerance = max(EXACT, ROUNDING * difference)

    # A server of our own

    def _first_folder(self) -> Path:
        """Return the folder of the checkpoint with which our own server starts."""
        return self._base_model

    def _is_dead(self) -> bool:
        return self._own is not None and not self._own.process.running

    async def _revive(self) -> None:
        """Start our own server again after it has ended. The weights are transferred later."""
        assert self._own is not None, "the server belongs to someone else"
        await asyncio.to_thread(self._own.restart, self._first_folder())

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

    @property
    def _probe(self) -> WeightProbe:
        assert self._connected is not None, "connect it first"
        return self._connected

    @property
    def _model_name(self) -> str:
        assert self._model is not None, "register a model first"
        return self._model.name
