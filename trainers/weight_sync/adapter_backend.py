"""The modes `lora_only` and `lora_restart`: a LoRA adapter for each transferred step.

Both load the adapter over HTTP. `lora_restart` restarts the run's own server before, for servers
that lose memory or speed with each adapter.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from arena.core.errors import StopPlaying
from backends.embedded.architecture import ADAPTER
from trainers.algorithms.learner import Learner
from trainers.hosts.policy import ServedWeights
from trainers.weight_sync.adapter_server import adapters_folder
from trainers.weight_sync.proven_server import PROBE, Chat, ProbeReply, ProvenServer
from trainers.weight_sync.remote import RemoteTrainer

REHEARSAL = "rehearsal"
"""Version of the rehearsal's adapter: no number, so that no player takes it for the newest."""


class AdapterTrainer(RemoteTrainer):
    """Trains a LoRA adapter here, and loads it into the server."""

    async def keep(self, steps: Collection[int]) -> None:
        await super().keep(steps)
        kept = set(self.steps())
        for server in self._servers:
            async with server.loading:
                await self._unload(server, server.loaded - kept)

    async def _prepare(self, server: ProvenServer) -> None:
        for name in await asyncio.to_thread(server.names):
            if name.startswith(f"{self.name}@"):  # From an earlier start of this run.
                await asyncio.to_thread(server.unload, name)
        if server is self._servers[0]:
            running = [each for each in self._servers if each.own is None]
            self._adapters = await asyncio.to_thread(adapters_folder, self._request, running)
            shutil.rmtree(self._adapters, ignore_errors=True)
        await server.calibrate(0)
        if self.sampling_step:
            await self._load(server, self.sampling_step, PROBE)
        else:
            await self._rehearse(server)

    async def _make_available(self, server: ProvenServer, step: int | None) -> ServedWeights:
        step = self.sampling_step if step is None else step
        # Tested twice: without the lock, so that games do not wait for each other, and with it,
        # since another game may have loaded the step meanwhile.
        if step and step not in server.loaded:
            async with server.loading:
                if step not in server.loaded:
                    await self._load(server, step, PROBE)
        return ServedWeights(self._name_at(server, step), step)

    async def _reload(self, server: ProvenServer, step: int | None) -> None:
        step = self.sampling_step if step is None else step
        async with server.loading:
            if await server.is_dead():
                await self._revive(server)
            known = await asyncio.to_thread(server.names)
            # After a restart the server knows only its base model.
            server.loaded = {each for each in server.loaded if self._name_at(server, each) in known}
            if step and step not in server.loaded:
                await self._load(server, step, PROBE)

    async def _revive(self, server: ProvenServer) -> None:
        await super()._revive(server)
        server.loaded.clear()

    async def _sync(self, server: ProvenServer, step: int, chat: Chat) -> ProbeReply:
        """Replace the adapters of all earlier steps by a new step's."""
        if self._config.weight_sync == "lora_restart":
            await self._revive(server)
        # Load first, then unload: there is always an adapter that answers.
        reply = await self._load(server, step, chat)
        await self._unload(server, server.loaded - {step})
        return reply

    async def _load(self, server: ProvenServer, step: int, chat: Chat) -> ProbeReply:
        """Load the adapter of a step. Raises StopPlaying unless the server answers with it."""
        name = self._name_at(server, step)
        folder = self._publish(self.checkpoint(step) / ADAPTER, step)
        await asyncio.to_thread(server.load, name, folder)
        reply = await server.prove(name, step, chat)
        server.loaded.add(step)
        return reply

    async def _unload(self, server: ProvenServer, steps: set[int]) -> None:
        for step in sorted(steps):
            await asyncio.to_thread(server.unload, self._name_at(server, step))
            server.loaded.discard(step)
            if not any(step in other.loaded for other in self._servers):
                for folder in self._adapters.glob(f"{step:04d}-*"):
                    shutil.rmtree(folder)

    def _publish(self, source: Path, step: int) -> Path:
        """Copy an adapter to the folder from which servers read it; return the copy."""
        # The name depends on the weights. vLLM takes equal names and paths for equal weights, and
        # would reuse its cached results when a step is repeated with other weights.
        content = b"".join(path.read_bytes() for path in sorted(source.iterdir()))
        folder = self._adapters / f"{step:04d}-{hashlib.sha256(content).hexdigest()[:12]}"
        if not folder.exists():
            # Another server may read the folder from the moment at which it exists.
            draft = self._adapters / f".{folder.name}"
            shutil.copytree(source, draft, dirs_exist_ok=True)
            draft.rename(folder)
        return folder

    async def _rehearse(self, server: ProvenServer) -> None:
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
        name = f"{self.name}@{REHEARSAL}"
        await asyncio.to_thread(server.load, name, folder)
        reply = await server.probe.request(name)
        await asyncio.to_thread(server.unload, name)
        shutil.rmtree(folder)
        difference = await server.probe.difference(reply, learner.weights)
        if not server.accepts(difference):
            raise StopPlaying(
                f"{server.url} has loaded a test adapter, but does not answer with it: "
                f"log-probabilities differ by {difference:.2g} nats; {server.start_hint}"
            )

    def _name_at(self, server: ProvenServer, step: int) -> str:
        """Return the name of a step at a server; step 0 is the server's base model."""
        return f"{self.name}@{step}" if step else server.base_name
