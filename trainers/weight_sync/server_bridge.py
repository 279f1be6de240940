"""Bridges to one model server, by --weight-sync.

`ServerBridge` is what all modes share: start, transfer with proof, policies. `lora_only` and
`lora_restart` send the LoRA adapter of a step over HTTP; `lora_restart` restarts the run's own
server before, for servers that lose memory or speed with each adapter. `none` restarts it with the
checkpoint of a step. A server of full weights has those of one step; this process answers for
others: those of earlier checkpoints, as opponents and in held-out evaluations. If a server ends or
loses its adapters, the run stops; the same command starts it again.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from arena.core.errors import BackendError, StopPlaying, UsageError
from arena.llm.backend import Backend, Completion, Request
from backends.embedded.architecture import ADAPTER
from trainers.hosts.embedded_trainer import EmbeddedTrainer, InProcess
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights, inference_server
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.model_server import adapters_folder, server_of_run
from trainers.weight_sync.weight_proof import (
    PROBE,
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
            async with self._loading:
                reply = await self._transfer(step, first_chat(groups))
        except BackendError as error:
            # The step is done, but nothing may play before its weights answer.
            raise StopPlaying(f"{error}; {RESUME}") from None
        metrics = await self.proof.metrics(reply, step, self._config.sampling_step(step - 1))
        return metrics | {"seconds_swapping": time.perf_counter() - started}

    def policy(self, step: int | None) -> Backend:
        # Step 0 is the base model, and needs no checkpoint here.
        if step and step not in self._trainer.steps():
            raise UsageError(
                f"the checkpoint of step {step} is not kept; found {self._trainer.steps()}"
            )

        def wanted() -> int:
            return self.newest if step is None else step

        return HostedPolicy(
            self._http,
            lambda: self._serve(wanted()),
            model=self._trainer.name,
            context_length=self._context_length,
        )

    @abstractmethod
    async def keep(self, steps: Collection[int]) -> None:
        """See `Bridge`."""

    async def close(self) -> None:
        await self._http.close()
        if self.server.own is not None:
            await asyncio.to_thread(self.server.own.process.stop)

    @abstractmethod
    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        """Transfer the weights of a step; returns a reply to the chat that proves them."""

    @abstractmethod
    async def _serve(self, step: int) -> ServedWeights:
        """Let the server answer with the weights of a step."""

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


class LoraOnly(ServerBridge):
    """A `Bridge` to a server that loads the adapters of steps while it runs."""

    def __init__(self, request: HostRequest, trainer: EmbeddedTrainer) -> None:
        """Start nothing yet. Raises UsageError if another program uses the port."""
        super().__init__(request, trainer)
        self._request = request
        self._folder: Path
        """Folder from which the server loads adapters."""
        self._loaded = set[int]()
        """Steps whose adapter the server has."""

    async def start(self) -> None:
        await self._start(self._trainer.base_model)
        self._folder = await asyncio.to_thread(adapters_folder, self._request, self.server)
        shutil.rmtree(self._folder, ignore_errors=True)
        for name in await asyncio.to_thread(self.server.names):
            if name.startswith(f"{self._trainer.name}@"):  # From an earlier start of this run.
                await asyncio.to_thread(self.server.unload, name)
        await self.proof.calibrate(self.base_name, 0)
        if self.newest:
            await self._load(self.newest, PROBE)

    async def keep(self, steps: Collection[int]) -> None:
        async with self._loading:
            await self._unload(self._loaded - set(steps))

    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        """Replace the adapters of all earlier steps by a new step's."""
        # Load first, then unload: there is always an adapter that answers.
        reply = await self._load(step, chat)
        await self._unload(self._loaded - {step})
        return reply

    async def _serve(self, step: int) -> ServedWeights:
        # Tested twice: without the lock, so that games do not wait for each other, and with it,
        # since another game may have loaded the step meanwhile.
        if step and step not in self._loaded:
            async with self._loading:
                if step not in self._loaded:
                    await self._load(step, PROBE)
        return ServedWeights(self._name(step), step)

    async def _load(self, step: int, chat: Chat) -> ProbeReply:
        """Load the adapter of a step. Raises StopPlaying unless the server answers with it."""
        name, folder = self._name(step), self._copy(step)
        await asyncio.to_thread(self.server.load, name, folder)
        reply = await self.proof.prove(name, step, chat)
        self._loaded.add(step)
        return reply

    async def _unload(self, steps: set[int]) -> None:
        for step in sorted(steps):
            await asyncio.to_thread(self.server.unload, self._name(step))
            self._loaded.discard(step)
            for folder in self._folder.glob(f"{step:04d}-*"):
                shutil.rmtree(folder)

    def _copy(self, step: int) -> Path:
        """Copy the adapter of a step to the folder from which the server reads it."""
        source = self._trainer.checkpoint(step) / ADAPTER
        # The name depends on the weights. vLLM takes equal names and paths for equal weights, and
        # would reuse its cached results when a step is repeated with other weights.
        content = b"".join(path.read_bytes() for path in sorted(source.iterdir()))
        folder = self._folder / f"{step:04d}-{hashlib.sha256(content).hexdigest()[:12]}"
        if not folder.exists():
            shutil.copytree(source, folder)
        return folder

    def _name(self, step: int) -> str:
        """Return the name of a step at the server; step 0 is the server's base model."""
        return f"{self._trainer.name}@{step}" if step else self.base_name


class LoraRestart(LoraOnly):
    """A `Bridge` to the run's own server, which is restarted before it loads an adapter."""

    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        await self._restart(self._trainer.base_model)
        self._loaded.clear()
        return await super()._transfer(step, chat)


class FullWeights(ServerBridge):
    """Base of a `Bridge` to a server that has one step's weights."""

    def __init__(self, request: HostRequest, trainer: EmbeddedTrainer) -> None:
        """Start nothing yet. Raises UsageError if another program uses the port."""
        super().__init__(request, trainer)
        self._here = InProcess(trainer)

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        self._here.served.evict(self._trainer.step)
        return await super().publish(step, groups)

    def policy(self, step: int | None) -> Backend:
        hosted = super().policy(step)
        if step is None:
            return hosted
        return SplitPolicy(hosted, self._here, lambda: step == self.newest, step)

    async def keep(self, steps: Collection[int]) -> None:
        await self._here.keep(steps)

    async def _serve(self, step: int) -> ServedWeights:
        return ServedWeights(self.base_name, step)


class SplitPolicy:
    """Answers at the server, if it has the weights, and otherwise in this process."""

    def __init__(
        self, hosted: Backend, here: InProcess, has: Callable[[], bool], step: int
    ) -> None:
        self.model = hosted.model
        self.context_length = hosted.context_length
        self._hosted = hosted
        self._here = here
        self._has = has
        self._step = step

    async def complete(self, request: Request) -> Completion:
        """Return the completion with the `policy_version` of its weights. Raises BackendError."""
        policy = self._hosted if self._has() else self._here.policy(self._step)
        return await policy.complete(request)

    async def close(self) -> None:
        """Do nothing: the host closes the connections and the sampler."""


class CheckpointRestart(FullWeights):
    """The mode `none`: the run's own server is restarted with the checkpoint of a step."""

    async def start(self) -> None:
        step = self.newest
        await self._start(self._trainer.checkpoint(step))
        # It was started with this checkpoint, by us.
        await self.proof.calibrate(self.base_name, step)
        await self.proof.prove(self.base_name, step, PROBE)

    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        await self._restart(self._trainer.checkpoint(step))
        return await self.proof.prove(self.base_name, step, chat)
