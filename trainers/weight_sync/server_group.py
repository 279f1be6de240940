"""The model servers of a run: started, proven and stopped together.

After a transfer of weights, the first reply of each server must have the log-probabilities that the
new weights give it here. If not, training stops, because it would learn from games that other
weights have played. Until the next transfer (sync_every) these weights play, and their version
and log-probabilities are recorded with each reply, so that the loss corrects for their age.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

from pydantic import SecretStr
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_exponential

from arena.core.errors import BackendError, StopPlaying, UsageError
from trainers.config.config import OWNED_SERVERS
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights, inference_server
from trainers.weight_sync.model_server import ModelServer
from trainers.weight_sync.own_server import own_servers
from trainers.weight_sync.server_checks import adapters_folder, server_urls, start_hint
from trainers.weight_sync.weight_proof import RESUME, KnownWeights, ProbeReply, WeightProof

Transfer = Callable[[ModelServer], Awaitable[ProbeReply]]
"""Transfer the weights of a step to a server; returns a reply that proves them."""
Serve = Callable[[ModelServer, int], Awaitable[ServedWeights]]
"""Let a server answer with the weights of a step."""
Reload = Callable[[ModelServer, int], Awaitable[None]]
"""Transfer the weights of a step again if a server has lost them."""


class ServerGroup:
    """The servers of `--server`; several only if they take adapters."""

    def __init__(self, request: HostRequest, trainer: EmbeddedTrainer) -> None:
        """Start nothing yet. Raises UsageError if another program uses a port."""
        self.config = request.config
        self.request = request
        self.trainer = trainer
        self._context_length = trainer.sampler.context_length
        self._patience = request.settings.service.limits("embedded").patience
        """Seconds to wait for a server that does not answer."""
        key = request.settings.secret("ARENA_API_KEY")
        if request.config.server in OWNED_SERVERS:
            if key is None and request.config.places_servers:
                # Anyone who reaches the node could use the server, or change its weights.
                key = SecretStr(secrets.token_urlsafe(32))
            device, folder = trainer.sampler.device, adapters_folder(request)
            hint = f"its log is {request.folder}/server*.log"
            own = own_servers(request, folder, device, self._context_length, key)
            self._servers = [ModelServer("", key, hint, each) for each in own]
        else:
            urls = server_urls(request.config.server)
            self._servers = [ModelServer(url, key, start_hint(request, url)) for url in urls]

    def __iter__(self) -> Iterator[ModelServer]:
        return iter(self._servers)

    @property
    def only(self) -> ModelServer:
        """Return the server of a mode that has one."""
        (server,) = self._servers
        return server

    @property
    def newest(self) -> int:
        """Return the step whose weights answer for the newest policy."""
        return self.config.sampling_step(self.trainer.step)

    async def start(self, model: Path) -> None:
        """Start the run's own servers with the checkpoint in a folder, and connect all."""
        for server in self._servers:
            await server.place()
        await asyncio.gather(*(server.restart(model) for server in self._servers if server.own))
        trainer = self.trainer
        learner = trainer.learner
        known = KnownWeights(
            f"--base-model {trainer.base_model}",
            trainer.weights,
            trainer.sampler.encode,
            learner.architecture,
            learner.device,
        )
        for server in self._servers:
            key = server.key or "unused"
            http = inference_server(self.request, "embedded", trainer.name, server.url, key)
            listed = await server.connect(WeightProof(http, known, server.start_hint))
            longest = listed.max_model_len or self._context_length
            self._context_length = min(self._context_length, longest)

    async def publish(self, step: int, transfer: Transfer) -> dict[str, float]:
        """Transfer a step to all servers; returns metrics in nats and seconds.

        They are the largest difference of any server from the new weights, and the least movement.
        """
        started = time.perf_counter()
        try:
            transfers = (self._patiently(partial(transfer, each)) for each in self._servers)
            replies = await asyncio.gather(*transfers)
        except BackendError as error:
            # Not retryable: the step itself is done, and would be done a second time.
            raise StopPlaying(f"{error}; {RESUME}") from None
        before = self.config.sampling_step(step - 1)
        pairs = [(s.proof, reply) for s, reply in zip(self._servers, replies, strict=True)]
        return {
            "swap_difference": max([await proof.difference(reply, step) for proof, reply in pairs]),
            "swap_moved": min([await p.distance(reply, step, before) for p, reply in pairs]),
            "seconds_swapping": time.perf_counter() - started,
        }

    def earlier_steps(self, step: int) -> set[int]:
        """Return the steps whose weights a server may still have in place of those of a step."""
        kept = {0, *self.trainer.steps()}
        return {self.config.sampling_step(step - 1), step - 1, 0} & kept

    def policies(self, step: int | None, serve: Serve, reload: Reload) -> list[HostedPolicy]:
        """Return for each server a backend for a step. Raises UsageError if it is not kept."""
        # Step 0 is the base model, and needs no checkpoint here.
        if step and step not in self.trainer.steps():
            raise UsageError(
                f"the checkpoint of step {step} is not kept; found {self.trainer.steps()}"
            )
        return [self._policy(server, step, serve, reload) for server in self._servers]

    def _policy(
        self, server: ModelServer, step: int | None, serve: Serve, reload: Reload
    ) -> HostedPolicy:
        def known(wanted: int | None) -> int:
            return self.newest if wanted is None else wanted

        return HostedPolicy(
            server.http,
            lambda wanted: serve(server, known(wanted)),
            step,
            model=self.trainer.name,
            context_length=self._context_length,
            reload=lambda wanted: reload(server, known(wanted)),
            # Only this run restarts its own server.
            reload_on_loss=server.own is not None,
        )

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    async def _patiently(self, do: Callable[[], Awaitable[ProbeReply]]) -> ProbeReply:
        """Repeat while the server is being restarted, for at most `patience` seconds."""
        return await AsyncRetrying(
            retry=retry_if_exception(lambda error: getattr(error, "retryable", False)),
            stop=stop_after_delay(self._patience),
            wait=wait_exponential(multiplier=0.25, max=5),
            reraise=True,
        )(do)
