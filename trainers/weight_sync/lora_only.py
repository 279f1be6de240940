"""The modes `lora_only` and `lora_restart`: a LoRA adapter for each transferred step.

Both load the adapter over HTTP. `lora_restart` restarts the run's own server before, for servers
that lose memory or speed with each adapter.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from arena.core.errors import StopPlaying
from arena.llm.backend import Backend
from backends.embedded.architecture import ADAPTER
from trainers.algorithms.learner import Learner
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import ServedWeights, SeveralServers
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.model_server import ModelServer
from trainers.weight_sync.server_checks import adapters_folder
from trainers.weight_sync.server_group import ServerGroup
from trainers.weight_sync.weight_proof import PROBE, Chat, ProbeReply, first_chat

REHEARSAL = "rehearsal"
"""Version of the rehearsal's adapter: no number, so that no player takes it for the newest."""


class LoraOnly:
    """A `Bridge` to servers that load the adapters of steps while they run."""

    def __init__(self, request: HostRequest, trainer: EmbeddedTrainer) -> None:
        """Start nothing yet. Raises UsageError if another program uses a port."""
        self.servers = ServerGroup(request, trainer)
        self._request = request
        self._trainer = trainer
        self._folder = adapters_folder(request)
        """Folder from which the servers load adapters."""
        self._loaded: defaultdict[ModelServer, set[int]] = defaultdict(set)
        """Steps whose adapter a server has."""

    async def start(self) -> None:
        await self.servers.start(self._trainer.base_model)
        running = [each for each in self.servers if each.own is None]
        self._folder = await asyncio.to_thread(adapters_folder, self._request, running)
        shutil.rmtree(self._folder, ignore_errors=True)
        for server in self.servers:
            for name in await asyncio.to_thread(server.names):
                if name.startswith(f"{self._trainer.name}@"):  # From an earlier start of this run.
                    await asyncio.to_thread(server.unload, name)
            await server.proof.calibrate(server.base_name, 0)
            if self.servers.newest:
                await self._load(server, self.servers.newest, PROBE)
            else:
                await self._rehearse(server)

    @asynccontextmanager
    async def updating(self) -> AsyncIterator[None]:
        """Do nothing: the servers have weights of their own."""
        yield

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        if self.servers.newest != step:
            return {}
        return await self.servers.publish(step, partial(self._transfer, step, first_chat(groups)))

    def policy(self, step: int | None) -> Backend:
        policies = self.servers.policies(step, self._serve, self._reload)
        return policies[0] if len(policies) == 1 else SeveralServers(policies)

    async def keep(self, steps: Collection[int]) -> None:
        for server in self.servers:
            async with server.loading:
                await self._unload(server, self._loaded[server] - set(steps))

    async def close(self) -> None:
        await self.servers.close()

    async def _transfer(self, step: int, chat: Chat, server: ModelServer) -> ProbeReply:
        """Replace the adapters of all earlier steps by a new step's."""
        async with server.loading:
            if await server.is_dead():
                await self._restart(server)
            return await self._replace(server, step, chat)

    async def _replace(self, server: ModelServer, step: int, chat: Chat) -> ProbeReply:
        # Load first, then unload: there is always an adapter that answers.
        reply = await self._load(server, step, chat)
        await self._unload(server, self._loaded[server] - {step})
        return reply

    async def _serve(self, server: ModelServer, step: int) -> ServedWeights:
        # Tested twice: without the lock, so that games do not wait for each other, and with it,
        # since another game may have loaded the step meanwhile.
        if step and step not in self._loaded[server]:
            async with server.loading:
                if step not in self._loaded[server]:
                    await self._load(server, step, PROBE)
        return ServedWeights(self._name_at(server, step), step)

    async def _reload(self, server: ModelServer, step: int) -> None:
        async with server.loading:
            if await server.is_dead():
                await self._restart(server)
            # After a restart the server knows only its base model.
            known, loaded = await asyncio.to_thread(server.names), self._loaded[server]
            loaded -= {each for each in loaded if self._name_at(server, each) not in known}
            if step and step not in loaded:
                await self._load(server, step, PROBE)

    async def _restart(self, server: ModelServer) -> None:
        await server.restart(self._trainer.base_model)
        self._loaded[server].clear()

    async def _load(self, server: ModelServer, step: int, chat: Chat) -> ProbeReply:
        """Load the adapter of a step. Raises StopPlaying unless the server answers with it."""
        name = self._name_at(server, step)
        folder = self._copy(self._trainer.checkpoint(step) / ADAPTER, step)
        await asyncio.to_thread(server.load, name, folder)
        reply = await server.proof.prove(name, step, chat, self.servers.earlier_steps(step))
        self._loaded[server].add(step)
        return reply

    async def _unload(self, server: ModelServer, steps: set[int]) -> None:
        for step in sorted(steps):
            await asyncio.to_thread(server.unload, self._name_at(server, step))
            self._loaded[server].discard(step)
            if not any(step in loaded for loaded in self._loaded.values()):
                for folder in self._folder.glob(f"{step:04d}-*"):
                    shutil.rmtree(folder)

    def _copy(self, source: Path, step: int) -> Path:
        """Copy an adapter to the folder from which servers read it; return the copy."""
        # The name depends on the weights. vLLM takes equal names and paths for equal weights, and
        # would reuse its cached results when a step is repeated with other weights.
        content = b"".join(path.read_bytes() for path in sorted(source.iterdir()))
        folder = self._folder / f"{step:04d}-{hashlib.sha256(content).hexdigest()[:12]}"
        if not folder.exists():
            # Another server may read the folder from the moment at which it exists.
            draft = self._folder / f".{folder.name}"
            shutil.copytree(source, draft, dirs_exist_ok=True)
            draft.rename(folder)
        return folder

    async def _rehearse(self, server: ModelServer) -> None:
        """Swap in a test adapter, so that problems show before the first game."""
        # Normal noise in B changes the log-probabilities much: the base model cannot pass for it.
        learner = Learner(self._trainer.base_model, "cpu", self._trainer.lora)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for factor, tensor in learner.trained.items():
                if factor.endswith("lora_B"):
                    tensor.normal_(0.0, 0.05, generator=generator)
        with TemporaryDirectory() as draft:
            learner.save_adapter(Path(draft))
            folder = self._copy(Path(draft), 0)
        name = f"{self._trainer.name}@{REHEARSAL}"
        await asyncio.to_thread(server.load, name, folder)
        reply = await server.proof.request(name)
        await asyncio.to_thread(server.unload, name)
        shutil.rmtree(folder)
        here = await asyncio.to_thread(server.proof.known.score, reply, learner.weights())
        difference = float((reply.logprobs - here).abs().max())
        if not server.proof.accepts(difference):
            raise StopPlaying(
                f"{server.url} has loaded a test adapter, but does not answer with it: "
                f"log-probabilities differ by {difference:.2g} nats; {server.start_hint}"
            )

    def _name_at(self, server: ModelServer, step: int) -> str:
        """Return the name of a step at a server; step 0 is the server's base model."""
        return f"{self._trainer.name}@{step}" if step else server.base_name


class LoraRestart(LoraOnly):
    """A `Bridge` to the run's own server, which is restarted before it loads an adapter."""

    async def _replace(self, server: ModelServer, step: int, chat: Chat) -> ProbeReply:
        await self._restart(server)
        return await super()._replace(server, step, chat)
