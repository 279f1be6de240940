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

from backends.embedded.architecture import ADAPTER
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import ServedWeights
from trainers.weight_sync.model_server import adapters_folder
from trainers.weight_sync.server_bridge import ServerBridge
from trainers.weight_sync.weight_proof import PROBE, Chat, ProbeReply


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

    async def _revive(self) -> None:
        await self._restart_empty()

    async def _restart_empty(self) -> None:
        """Start the run's own server again, with the base model alone."""
        await self._restart(self._trainer.base_model)
        self._loaded.clear()

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

    async def _reload(self, step: int) -> None:
        async with self._loading:
            if await self.server.is_dead():
                await self._restart_empty()
            # After a restart the server knows only its base model.
            known = await asyncio.to_thread(self.server.names)
            self._loaded -= {each for each in self._loaded if self._name(each) not in known}
            if step and step not in self._loaded:
                await self._load(step, PROBE)

    async def _load(self, step: int, chat: Chat) -> ProbeReply:
        """Load the adapter of a step. Raises StopPlaying unless the server answers with it."""
        name, folder = self._name(step), self._copy(step)
        await asyncio.to_thread(self.server.load, name, folder)
        reply = await self._prove(name, step, chat)
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

    async def _revive(self) -> None:
        """Do nothing: `_transfer` starts the server in any case."""

    async def _transfer(self, step: int, chat: Chat) -> ProbeReply:
        await self._restart_empty()
        return await super()._transfer(step, chat)
