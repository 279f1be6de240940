"""Training here while another process answers: the two-terminal set-up of `--server URL`.

After each step the new adapter is loaded into the server, and its first reply must have the
log-probabilities that the new weights give it here. If it has not, training stops: games of other
weights than those that learn would teach nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, get_args

import torch
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_exponential
from torch import Tensor

from arena.core.errors import BackendError, StopPlaying, UsageError
from arena.llm.backend import Completion, Message, Request, Role
from backends.embedded import find_checkpoint
from backends.openai_http import HTTPBackend
from trainers.algorithms.learner import ADAPTER, Learner
from trainers.algorithms.lora import Lora
from trainers.hosts.art import Choice, TrainResult, TrajectoryGroup
from trainers.hosts.embedded_backend import AnyModel, EmbeddedArtBackend
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, Served
from trainers.hosts.weight_sync.adapter_server import (
    AdapterServer,
    adapter_server,
    adapters_folder,
    lora_rank,
)
from trainers.hosts.weight_sync.probing import PROBE, Chat, Prober, Reply

EXACT = 1e-4
"""Nats; two programs that compute in float32 differ by less."""
ROUNDING = 4.0
"""A server may differ by so many times what it differs by under the base model: in half precision
it rounds more than we do."""
ANOTHER_MODEL = 0.1
"""Nats; no rounding of the same weights differs by more."""
REHEARSAL = 999_999_999
"""The step under whose name the rehearsal's adapter is loaded: no run is that long."""


def remote_backend(request: HostRequest, **more: Any) -> RemoteBackend:
    """The backend for the server that --server names; `more` is `EmbeddedArtBackend`'s."""
    config = request.config
    return RemoteBackend(
        adapter_server(request),
        adapters_folder(request),
        request.folder / "art",
        find_checkpoint(config.base_model),
        lora=Lora(lora_rank(config), config.lora_alpha, config.seed),
        patience=request.settings.service.limits("embedded").patience,
        **more,
    )


class RemoteBackend(EmbeddedArtBackend):
    """Trains a LoRA adapter here and has a server answer with it."""

    def __init__(
        self,
        server: AdapterServer,
        adapters: Path,
        folder: Path,
        base_model: Path,
        *,
        lora: Lora,
        patience: float,
        **more: Any,
    ) -> None:
        """`adapters` is where the server finds them; `patience` seconds are waited for a server
        that does not answer; the rest is `EmbeddedArtBackend`'s."""
        super().__init__(folder, base_model, lora=lora, **more)
        self._server = server
        self._adapters = adapters
        self._patience = patience
        self._lora = lora
        self._tolerance = EXACT
        self._base_name = ""
        self._loaded: set[int] = set()
        self._changing = asyncio.Lock()
        self._connected: Prober | None = None
        self.context_length = self.sampler.context_length

    # What ART calls

    async def _prepare_backend_for_training(
        self, model: AnyModel, config: object = None
    ) -> tuple[str, str]:
        return self._server.url, self._server.key or "unused"

    def _model_inference_name(self, model: AnyModel, step: int | None = None) -> str:
        """The server's own model is step 0; adapters are loaded when they are asked."""
        wanted = self._step if step is None else step
        return f"{model.name}@{wanted}" if wanted else self._base_name

    async def train(
        self, model: AnyModel, trajectory_groups: Iterable[TrajectoryGroup], **arguments: Any
    ) -> TrainResult:
        """One training step; it is finished when the server has answered with its weights."""
        groups = list(trajectory_groups)
        result = await super().train(model, groups, **arguments)
        started = time.perf_counter()
        chat = next(_first_chats(groups), PROBE)
        async with self._changing:
            metrics = await self._patiently(lambda: self._swap(result.step, chat))
        metrics["seconds_swapping"] = time.perf_counter() - started
        return TrainResult(result.step, {**result.metrics, **metrics})

    async def close(self) -> None:
        if self._connected is not None:
            await self._connected.http.close()
        await super().close()

    def _serve(self, step: int, state: Mapping[str, Tensor]) -> None:
        """Nobody is answered from this process."""

    def _client(self) -> None:
        """ART makes one, for the server."""

    # Beyond the protocol

    async def connect(self, http: HTTPBackend) -> None:
        """Find out whether the server can be used, before anything is played with it.

        Raises StopPlaying if it holds another model, or does not answer with an adapter that it
        was given.
        """
        learner, hint = self._learner, self._server.how_to_start
        self._connected = Prober(http, self.sampler.encode, learner.shape, learner.device, hint)
        card = await asyncio.to_thread(self._server.base)
        self._base_name = card.id
        self.context_length = min(self.context_length, card.max_model_len or self.context_length)
        for name in await asyncio.to_thread(self._server.names):
            if name.startswith(f"{self._named}@"):  # Of an earlier life of this run.
                await asyncio.to_thread(self._server.unload, name)
        shutil.rmtree(self._adapters, ignore_errors=True)
        await self._compare_base()
        if self._step:
            await self._load(self._step, PROBE)
        else:
            await self._rehearse()

    def policy(self, step: int | None) -> RemotePolicy:
        """Answers with the weights of a step. Raises UsageError for one that is not kept."""
        if step and step not in self.steps():
            raise UsageError(f"the checkpoint of step {step} is not kept; there are {self.steps()}")
        return RemotePolicy(
            self._prober.http,
            self._served,
            step,
            reload=self._reload,
            model=self._named,
            context_length=self.context_length,
        )

    async def _delete_checkpoint_files(self, model: AnyModel, steps_to_keep: list[int]) -> None:
        await super()._delete_checkpoint_files(model, steps_to_keep)
        async with self._changing:
            await self._unload(self._loaded - set(self.steps()))

    async def _served(self, step: int | None) -> Served:
        wanted = self._step if step is None else step
        if wanted and wanted not in self._loaded:
            async with self._changing:
                if wanted not in self._loaded:
                    await self._load(wanted, PROBE)
        return Served(self._name(wanted), wanted)

    async def _reload(self, step: int | None) -> None:
        """Load a step's adapter anew if the server does not know it any more."""
        wanted = self._step if step is None else step
        async with self._changing:
            known = await asyncio.to_thread(self._server.names)
            self._loaded = {each for each in self._loaded if self._name(each) in known}
            if wanted and wanted not in self._loaded:
                await self._load(wanted, PROBE)

    # The swap

    async def _swap(self, step: int, chat: Chat) -> dict[str, float]:
        """Have the server answer with a new step in place of all earlier ones; what is logged."""
        reply = await self._load(step, chat)
        await self._unload(self._loaded - {step})
        new, old = partial(self._weights, step), partial(self._weights, step - 1)
        return {
            "swap_difference": await self._prober.difference(reply, new),
            "swap_moved": await self._prober.distance(reply, new, old),
        }

    async def _load(self, step: int, chat: Chat) -> Reply:
        """Load the adapter of a step, and demand that the server's first reply is of it."""
        folder = self._publish(self.checkpoint(step) / ADAPTER, step)
        await asyncio.to_thread(self._server.load, self._name(step), folder)
        reply = await self._prober.ask(self._name(step), chat)
        difference = await self._prober.difference(reply, partial(self._weights, step))
        if difference > self._tolerance:
            raise StopPlaying(
                f"{self._server.url} still answers with other weights than those of step {step}: "
                f"the log-probabilities of its first reply differ by {difference:.2g} nats"
                f"{await self._resembled(reply, step)}. Restart the server and give the same "
                "command again, which goes on from the last finished step"
            )
        self._loaded.add(step)
        return reply

    async def _resembled(self, reply: Reply, step: int) -> str:
        """Whose weights answered, if that can be told."""
        for each in sorted({step - 1, 0} & {0, *self.steps()}, reverse=True):
            gap = await self._prober.difference(reply, partial(self._weights, each))
            if gap <= self._tolerance:
                return f", and are those of {f'step {each}' if each else 'the base model'}"
        return ""

    async def _unload(self, steps: set[int]) -> None:
        for step in sorted(steps):
            await asyncio.to_thread(self._server.unload, self._name(step))
            self._loaded.discard(step)
            for folder in self._adapters.glob(f"{step:04d}-*"):
                shutil.rmtree(folder)

    def _publish(self, source: Path, step: int) -> Path:
        """Copy an adapter to where the server reads it.

        The folder's name depends on the weights: vLLM takes equal names and paths for equal
        weights, and would go on to use what it has computed with those of a step done twice.
        """
        content = b"".join(path.read_bytes() for path in sorted(source.iterdir()))
        folder = self._adapters / f"{step:04d}-{hashlib.sha256(content).hexdigest()[:12]}"
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return folder

    async def _compare_base(self) -> None:
        """Find out how exactly the server computes, and whether it holds the base model."""
        reply = await self._prober.ask(self._base_name)
        difference = await self._prober.difference(reply, partial(self._weights, 0))
        if difference > ANOTHER_MODEL:
            raise StopPlaying(
                f"{self._server.url} answers with another model ({self._base_name}) than "
                f"--base-model {self._base_model}: the log-probabilities of its reply differ by "
                f"{difference:.2g} nats; {self._server.how_to_start}"
            )
        self._tolerance = max(EXACT, ROUNDING * difference)

    async def _rehearse(self) -> None:
        """Swap in an adapter that changes much: whatever may fail fails before the first game."""
        learner = Learner(self._base_model, "cpu", self._lora)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for factor, tensor in learner._trained.items():
                if factor.endswith("lora_B"):
                    tensor.normal_(0.0, 0.05, generator=generator)
        with TemporaryDirectory() as draft:
            learner.save_adapter(Path(draft))
            folder = self._publish(Path(draft), 0)
        name = f"{self._named}@{REHEARSAL}"
        await asyncio.to_thread(self._server.load, name, folder)
        reply = await self._prober.ask(name)
        await asyncio.to_thread(self._server.unload, name)
        shutil.rmtree(folder)
        difference = await self._prober.difference(reply, learner.state)
        # What changes much is also rounded more.
        if difference > max(self._tolerance, ANOTHER_MODEL):
            raise StopPlaying(
                f"{self._server.url} has loaded an adapter for a test, and does not answer with "
                f"it: log-probabilities differ by {difference:.2g} nats; "
                f"{self._server.how_to_start}"
            )

    async def _patiently(self, do: Callable[[], Awaitable[dict[str, float]]]) -> dict[str, float]:
        """Wait for a server that is being restarted, but not for ever."""
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(lambda error: getattr(error, "retryable", False)),
            stop=stop_after_delay(self._patience),
            wait=wait_exponential(multiplier=0.25, max=5),
            reraise=True,
        ):
            with attempt:
                return await do()
        raise AssertionError("tenacity raises what the last attempt raised")

    def _name(self, step: int) -> str:
        assert self._model is not None
        return self._model_inference_name(self._model, step)

    @property
    def _prober(self) -> Prober:
        assert self._connected is not None, "connect it first"
        return self._connected

    @property
    def _named(self) -> str:
        assert self._model is not None, "register a model first"
        return self._model.name


class RemotePolicy(HostedPolicy):
    """Answers from the server; an adapter that a restart has lost is loaded again, once a call."""

    def __init__(
        self,
        server: HTTPBackend,
        serve: Callable[[int | None], Awaitable[Served]],
        step: int | None,
        *,
        reload: Callable[[int | None], Awaitable[None]],
        model: str,
        context_length: int | None,
    ) -> None:
        super().__init__(server, serve, step, model=model, context_length=context_length)
        self._reload = reload

    async def complete(self, request: Request) -> Completion:
        try:
            return await super().complete(request)
        except BackendError as error:
            if error.cause != "bad_request":
                raise
        # A model that does not exist is a bad request like others; the list of models tells.
        await self._reload(self._step if request.policy_version is None else request.policy_version)
        return await super().complete(request)


def _first_chats(groups: Iterable[TrajectoryGroup]) -> Iterator[Chat]:
    """What was served for the first answer of each trajectory."""
    for trajectory in (each for group in groups for each in group):
        chat: list[Message] = []
        for item in trajectory.messages_and_choices:
            if isinstance(item, Choice):
                yield chat
                break
            role, content = item["role"], item.get("content")
            if role in get_args(Role):
                chat.append(Message(cast(Role, role), str(content or "")))
