"""Training in this process while another process answers: the set-up of `--server URL`.

After each step the new adapter is loaded into the server. The first reply of the server must have
the log-probabilities that the new weights give it here. If not, training stops, because it would
learn from games that other weights have played.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_exponential
from torch import Tensor

from arena.core.errors import StopPlaying, UsageError
from backends.openai_http import HTTPBackend
from trainers.algorithms.learner import ADAPTER, Learner
from trainers.hosts.art import TrainResult, TrajectoryGroup
from trainers.hosts.embedded_backend import AnyModel, EmbeddedArtBackend
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights
from trainers.hosts.weight_sync.adapter_server import adapter_server, adapters_folder
from trainers.hosts.weight_sync.weight_probe import (
    PROBE,
    Chat,
    ProbeReply,
    WeightProbe,
    first_chats,
)

EXACT = 1e-4
"""Nats; two programs that compute in float32 differ by less."""
ROUNDING = 4.0
"""Factor on the difference under the base model: a server in half precision rounds more than
float32, by an amount that depends on the model."""
ANOTHER_MODEL = 0.1
"""Nats; rounding of the same weights never differs by more."""
REHEARSAL = 999_999_999
"""Step number of the rehearsal's adapter; longer than any run."""


class RemoteBackend(EmbeddedArtBackend):
    """Trains a LoRA adapter here, and lets the server of --server answer with it."""

    def __init__(self, request: HostRequest, **options: Any) -> None:
        """Load the base model; `options` are the arguments of `EmbeddedArtBackend`."""
        super().__init__(**options)
        self._server = adapter_server(request)
        self._adapters = adapters_folder(request)
        self._patience = request.settings.service.limits("embedded").patience
        """Seconds to wait for a server that does not answer."""
        self._tolerance = EXACT
        self._base_name = ""
        self._loaded: set[int] = set()
        """Steps whose adapter the server has."""
        self._loading = asyncio.Lock()
        self._connected: WeightProbe | None = None
        self.context_length = self.sampler.context_length

    # Methods that ART calls

    async def _prepare_backend_for_training(
        self, model: AnyModel, config: object = None
    ) -> tuple[str, str]:
        return self._server.url, self._server.key or "unused"

    def _model_inference_name(self, model: AnyModel, step: int | None = None) -> str:
        """Return the name of a step at the server; step 0 is the server's base model."""
        step = self._step if step is None else step
        return f"{model.name}@{step}" if step else self._base_name

    async def train(
        self, model: AnyModel, trajectory_groups: Iterable[TrajectoryGroup], **arguments: Any
    ) -> TrainResult:
        """Do one training step; it is finished when the server has answered with its weights."""
        groups = list(trajectory_groups)
        result = await super().train(model, groups, **arguments)
        started = time.perf_counter()
        # Probe with a chat from the games: it is where the new weights matter.
        chat = next(first_chats(groups), PROBE)
        async with self._loading:
            metrics = await self._retry(lambda: self._swap(result.step, chat))
        metrics["seconds_swapping"] = time.perf_counter() - started
        return TrainResult(result.step, {**result.metrics, **metrics})

    async def close(self) -> None:
        if self._connected is not None:
            await self._connected.http.close()
        await super().close()

    def _serve(self, step: int, state: Mapping[str, Tensor]) -> None:
        """Do nothing: this process answers no requests."""

    def _client(self) -> None:
        """Return None: ART makes a client for the server."""

    # Beyond the protocol

    async def connect(self, http: HTTPBackend) -> None:
        """Test the server before the first game.

        Raises:
            StopPlaying: the server holds another model, or does not answer with a loaded adapter.
        """
        learner, hint = self._learner, self._server.start_hint
        self._connected = WeightProbe(
            http, self.sampler.encode, learner.architecture, learner.device, hint
        )
        listed = await asyncio.to_thread(self._server.base_model)
        self._base_name = listed.id
        self.context_length = min(self.context_length, listed.max_model_len or self.context_length)
        for name in await asyncio.to_thread(self._server.names):
            if name.startswith(f"{self._model_name}@"):  # From an earlier start of this run.
                await asyncio.to_thread(self._server.unload, name)
        shutil.rmtree(self._adapters, ignore_errors=True)
        await self._compare_base()
        if self._step:
            await self._load(self._step, PROBE)
        else:
            await self._rehearse()

    def policy(self, step: int | None) -> HostedPolicy:
        """Return a backend for the weights of a step. Raises UsageError if it is not kept."""
        # Step 0 is the server's base model, and needs no checkpoint here.
        if step and step not in self.steps():
            raise UsageError(f"the checkpoint of step {step} is not kept; found {self.steps()}")
        return HostedPolicy(
            self._probe.http,
            self._make_available,
            step,
            model=self._model_name,
            context_length=self.context_length,
            reload=self._reload,
        )

    async def _delete_checkpoint_files(self, model: AnyModel, steps_to_keep: list[int]) -> None:
        await super()._delete_checkpoint_files(model, steps_to_keep)
        async with self._loading:
            await self._unload(self._loaded - set(self.steps()))

    async def _make_available(self, step: int | None) -> ServedWeights:
        step = self._step if step is None else step
        # Tested twice: without the lock, so that games do not wait for each other, and with it,
        # since another game may have loaded the step meanwhile.
        if step and step not in self._loaded:
            async with self._loading:
                if step not in self._loaded:
                    await self._load(step, PROBE)
        return ServedWeights(self._name_at_server(step), step)

    async def _reload(self, step: int | None) -> None:
        """Load a step's adapter again if the server has lost it."""
        step = self._step if step is None else step
        async with self._loading:
            known = await asyncio.to_thread(self._server.names)
            # After a restart the server knows only its base model.
            self._loaded = {each for each in self._loaded if self._name_at_server(each) in known}
            if step and step not in self._loaded:
                await self._load(step, PROBE)

    # The swap

    async def _swap(self, step: int, chat: Chat) -> dict[str, float]:
        """Replace the adapters of all earlier steps by a new step's; return metrics in nats."""
        # Load first, then unload: there is always an adapter that answers.
        reply = await self._load(step, chat)
        await self._unload(self._loaded - {step})
        # Read late and in a thread: each is a file of the size of the model.
        new, old = partial(self._weights, step), partial(self._weights, step - 1)
        return {
            "swap_difference": await self._probe.difference(reply, new),
            "swap_moved": await self._probe.distance(reply, new, old),
        }

    async def _load(self, step: int, chat: Chat) -> ProbeReply:
        """Load the adapter of a step. Raises StopPlaying unless the server answers with it."""
        folder = self._publish(self.checkpoint(step) / ADAPTER, step)
        await asyncio.to_thread(self._server.load, self._name_at_server(step), folder)
        reply = await self._probe.request(self._name_at_server(step), chat)
        difference = await self._probe.difference(reply, partial(self._weights, step))
        if difference > self._tolerance:
            raise StopPlaying(
                f"{self._server.url} still answers with other weights than those of step {step}: "
                f"the log-probabilities of its first reply differ by {difference:.2g} nats"
                f"{await self._matching_step(reply, step)}. Restart the server and give the same "
                "command again; it continues from the last finished step"
            )
        self._loaded.add(step)
        return reply

    async def _matching_step(self, reply: ProbeReply, step: int) -> str:
        """Return which earlier weights the reply matches, for the error message, or ""."""
        for earlier in sorted({step - 1, 0} & {0, *self.steps()}, reverse=True):
            gap = await self._probe.difference(reply, partial(self._weights, earlier))
            if gap <= self._tolerance:
                return f", and are those of {f'step {earlier}' if earlier else 'the base model'}"
        return ""

    async def _unload(self, steps: set[int]) -> None:
        for step in sorted(steps):
            await asyncio.to_thread(self._server.unload, self._name_at_server(step))
            self._loaded.discard(step)
            for folder in self._adapters.glob(f"{step:04d}-*"):
                shutil.rmtree(folder)

    def _publish(self, source: Path, step: int) -> Path:
        """Copy an adapter to the folder from which the server reads it; return the copy."""
        # The name depends on the weights. vLLM takes equal names and paths for equal weights, and
        # would reuse its cached results when a step is repeated with other weights.
        content = b"".join(path.read_bytes() for path in sorted(source.iterdir()))
        folder = self._adapters / f"{step:04d}-{hashlib.sha256(content).hexdigest()[:12]}"
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return folder

    async def _compare_base(self) -> None:
        """Set the tolerance by the server's rounding. Raises StopPlaying for another base model."""
        reply = await self._probe.request(self._base_name)
        difference = await self._probe.difference(reply, partial(self._weights, 0))
        if difference > ANOTHER_MODEL:
            raise StopPlaying(
                f"{self._server.url} answers with another model ({self._base_name}) than "
                f"--base-model {self._base_model}: the log-probabilities of its reply differ by "
                f"{difference:.2g} nats; {self._server.start_hint}"
            )
        # The weights are equal here, so the difference is rounding alone.
        self._tolerance = max(EXACT, ROUNDING * difference)

    async def _rehearse(self) -> None:
        """Swap in a test adapter, so that problems show before the first game."""
        # Normal noise in B changes the log-probabilities much: the base model cannot pass for it.
        learner = Learner(self._base_model, "cpu", self._lora)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for factor, tensor in learner._trained.items():
                if factor.endswith("lora_B"):
                    tensor.normal_(0.0, 0.05, generator=generator)
        with TemporaryDirectory() as draft:
            learner.save_adapter(Path(draft))
            folder = self._publish(Path(draft), 0)
        name = f"{self._model_name}@{REHEARSAL}"
        await asyncio.to_thread(self._server.load, name, folder)
        reply = await self._probe.request(name)
        await asyncio.to_thread(self._server.unload, name)
        shutil.rmtree(folder)
        difference = await self._probe.difference(reply, learner.state)
        # A large change is also rounded more, so the tolerance is wider here.
        if difference > max(self._tolerance, ANOTHER_MODEL):
            raise StopPlaying(
                f"{self._server.url} has loaded a test adapter, but does not answer with it: "
                f"log-probabilities differ by {difference:.2g} nats; {self._server.start_hint}"
            )

    async def _retry(self, do: Callable[[], Awaitable[dict[str, float]]]) -> dict[str, float]:
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

    def _name_at_server(self, step: int) -> str:
        assert self._model is not None, "register a model first"
        return self._model_inference_name(self._model, step)

    @property
    def _probe(self) -> WeightProbe:
        assert self._connected is not None, "connect it first"
        return self._connected

    @property
    def _model_name(self) -> str:
        assert self._model is not None, "register a model first"
        return self._model.name
