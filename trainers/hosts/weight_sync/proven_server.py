"""A server that samples while this process trains, and proofs of the weights that it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from pydantic import SecretStr
from torch import Tensor

from arena.core.errors import StopPlaying
from backends.openai_http import HTTPBackend
from trainers.hosts.weight_sync.adapter_server import AdapterServer, ListedModel
from trainers.hosts.weight_sync.own_server import OwnServer
from trainers.hosts.weight_sync.weight_probe import (
    ANOTHER_MODEL,
    EXACT,
    PROBE,
    RESUME,
    ROUNDING,
    Chat,
    ProbeReply,
    WeightProbe,
)


class ProvenServer(AdapterServer):
    """A server whose weights are compared with those of the trainer."""

    def __init__(
        self,
        url: str,
        key: SecretStr | None,
        start_hint: str,
        *,
        own: OwnServer | None = None,
        base: Path,
        weights: Callable[[int], Mapping[str, Tensor]],
        earlier: Callable[[int], Iterable[int]],
    ) -> None:
        """Connect nothing yet.

        Args:
            url: with /v1 at its end; that of an `own` server follows from its place.
            key: its API key, if it has one.
            start_hint: ends error messages: commands that start a suitable server.
            own: the server, if this run starts and stops it.
            base: folder of the base model.
            weights: reads the weights of a step; may take seconds.
            earlier: returns the steps whose weights the server may still have in place of a step's.
        """
        super().__init__(url, key, start_hint)
        self.base_name = ""
        """Name of the weights that are no adapter."""
        self.loaded: set[int] = set()
        """Steps whose adapter it has."""
        self.loading = asyncio.Lock()
        """Held while weights are transferred."""
        self.own = own
        self._base = base
        self._weights = weights
        self._earlier = earlier
        self._tolerance = EXACT
        self._connected: WeightProbe | None = None

    async def place(self) -> None:
        """Determine the address of an own server; do nothing for another one."""
        if self.own is not None:
            await asyncio.to_thread(self.own.process.place)
            self._follow()

    async def restart(self, model: Path) -> None:
        """Start an own server with the checkpoint in this folder. Raises as OwnServer does."""
        assert self.own is not None, "the server belongs to someone else"
        await asyncio.to_thread(self.own.restart, model)
        self._follow()

    async def is_dead(self) -> bool:
        """Return whether it is an own server that has ended."""
        return self.own is not None and not await asyncio.to_thread(self.own.is_running)

    def _follow(self) -> None:
        """Use the address of the own server: it changes if its node is lost."""
        assert self.own is not None
        self.url = f"{self.own.process.url}/v1"
        if self._connected is not None:
            self.http.url = self.url

    async def connect(self, probe: WeightProbe) -> ListedModel:
        """Use these connections; returns the server's base model."""
        self._connected = probe
        return await self.identify()

    async def identify(self) -> ListedModel:
        """Ask for the base model's name, which a restart may change; returns the model."""
        listed = await asyncio.to_thread(self.base_model)
        self.base_name = listed.id
        return listed

    async def close(self) -> None:
        """Close the connections, and stop an own server."""
        if self._connected is not None:
            await self._connected.http.close()
        if self.own is not None:
            await asyncio.to_thread(self.own.process.stop)

    @property
    def probe(self) -> WeightProbe:
        assert self._connected is not None, "connect it first"
        return self._connected

    @property
    def http(self) -> HTTPBackend:
        """Return the connections for games."""
        return self.probe.http

    async def prove(self, name: str, step: int, chat: Chat) -> ProbeReply:
        """Return the reply under this name. Raises StopPlaying unless it is that of the step."""
        reply = await self.probe.request(name, chat)
        difference = await self.probe.difference(reply, partial(self._weights, step))
        # Written so that NaN fails too.
        if not difference <= self._tolerance:
            raise StopPlaying(
                f"{self.url} still answers with other weights than those of step {step}: "
                f"the log-probabilities of its first reply differ by {difference:.2g} nats"
                f"{await self._matching_step(reply, step)}. Restart the server and {RESUME}"
            )
        return reply

    async def _matching_step(self, reply: ProbeReply, step: int) -> str:
        """Return which earlier weights the reply matches, for the error message, or ""."""
        for earlier in sorted(self._earlier(step), reverse=True):
            gap = await self.probe.difference(reply, partial(self._weights, earlier))
            if gap <= self._tolerance:
                return f", and are those of {f'step {earlier}' if earlier else 'the base model'}"
        return ""

    async def calibrate(self, step: int) -> None:
        """Set the tolerance by the server's rounding, while it must have the weights of a step.

        Raises StopPlaying for another model.
        """
        reply = await self.probe.request(self.base_name, PROBE)
        difference = await self.probe.difference(reply, partial(self._weights, step))
        if not difference <= ANOTHER_MODEL:
            raise StopPlaying(
                f"{self.url} answers with another model ({self.base_name}) than --base-model "
                f"{self._base}: the log-probabilities of its reply differ by {difference:.2g} "
                f"nats; {self.start_hint}"
            )
        # The weights are equal here, so the difference is rounding alone.
        self._tolerance = max(EXACT, ROUNDING * difference)

    def accepts(self, difference: float) -> bool:
        """Return whether a difference in nats may be rounding, under weights that changed much."""
        # A large change is also rounded more, so the tolerance is wider here.
        return difference <= max(self._tolerance, ANOTHER_MODEL)
