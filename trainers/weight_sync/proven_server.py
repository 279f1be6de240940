"""A server that samples while this process trains, and proofs of the weights that it has.

The server returns a short reply with its log-probabilities. The same reply is scored here under
known weights. Equal log-probabilities show that the server has these weights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from pydantic import SecretStr
from torch import Tensor

from arena.core.errors import StopPlaying
from arena.llm.backend import Completion, Message, Request, Sampling
from backends.embedded.architecture import Architecture
from backends.embedded.layers import ConvertedWeights
from backends.openai_http import HTTPBackend, ModelCard
from trainers.algorithms.network import PackedSequences, SequenceSpan, score_tokens
from trainers.trajectory import Encode, TrajectoryGroup
from trainers.weight_sync.adapter_server import AdapterServer
from trainers.weight_sync.own_server import OwnServer

Chat = Sequence[Message]
ReadWeights = Callable[[], Mapping[str, Tensor]]
"""Read weights, under transformers' names; may take seconds."""
PROBE: Chat = (Message("user", "Who had the lead pipe in the library? suggest, show or accuse"),)
PROBE_TOKENS = 8
EXACT = 1e-4
"""Nats; two programs that compute in float32 differ by less."""
ROUNDING = 4.0
"""Factor on the difference under equal weights: a server in half precision rounds more than
float32, by an amount that depends on the model."""
ANOTHER_MODEL = 0.1
"""Nats; rounding of the same weights never differs by more."""
RESUME = "give the same command again; it continues from the last finished step"


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """A server's reply as tokens."""

    prompt: list[int]
    ids: list[int]
    logprobs: Tensor  # [ids], float32, in nats


@dataclass(frozen=True, slots=True)
class WeightProbe:
    """Requests replies from a server, and scores them under known weights."""

    http: HTTPBackend
    encode: Encode
    architecture: Architecture
    device: torch.device
    hint: str
    """The remedy for an unsuitable server, in error messages."""

    async def request(self, name: str, chat: Chat = PROBE) -> ProbeReply:
        """Return the greedy reply of the model of this name.

        Raises:
            BackendError: the server failed.
            StopPlaying: the server returns no token ids, or tokenises chats in another way.
        """
        # Greedy, so that the probe draws nothing and few tokens are enough.
        sampling = Sampling(temperature=0.0, max_tokens=PROBE_TOKENS)
        completion = await self.http.complete_with(
            name, Request(tuple(chat), sampling, logprobs=True)
        )
        prompt = self.encode(chat)
        self._check_prompt(completion, prompt)
        tokens = completion.choices[0].tokens
        ids = [token.id for token in tokens if token.id is not None]
        if not ids or len(ids) != len(tokens):
            raise StopPlaying(
                f"{self.http.url} returns no token ids with its log-probabilities, and without "
                f"them nothing can be trained; {self.hint}"
            )
        return ProbeReply(prompt, ids, torch.tensor([token.logprob for token in tokens]))

    async def difference(self, reply: ProbeReply, read: ReadWeights) -> float:
        """Return max |log p_server - log p_here| over the reply's tokens, in nats."""
        # In a thread: games may continue meanwhile.
        here = await asyncio.to_thread(self._logprobs, reply, read)
        return float((reply.logprobs - here).abs().max())

    async def distance(self, reply: ProbeReply, one: ReadWeights, other: ReadWeights) -> float:
        """Return max |log p_one - log p_other| over the reply's tokens, in nats."""
        first = await asyncio.to_thread(self._logprobs, reply, one)
        return float((first - await asyncio.to_thread(self._logprobs, reply, other)).abs().max())

    async def calibrate(self, name: str, read: ReadWeights, expected: str) -> float:
        """Return the tolerance for the server's rounding, while `name` must have these weights.

        Raises StopPlaying for other weights than the expected ones, whose name is for the error.
        """
        difference = await self.difference(await self.request(name), read)
        # Written so that NaN fails too.
        if not difference <= ANOTHER_MODEL:
            raise StopPlaying(
                f"{self.http.url} answers with another model ({name}) than {expected}: the "
                f"log-probabilities of its reply differ by {difference:.2g} nats; {self.hint}"
            )
        # The weights are equal here, so the difference is rounding alone.
        return max(EXACT, ROUNDING * difference)

    async def prove(
        self,
        reply: ProbeReply,
        step: int,
        weights: Callable[[int], Mapping[str, Tensor]],
        tolerance: float,
        earlier: Mapping[int, str],
    ) -> float:
        """Return the difference of a reply from the weights of a step, in nats.

        Raises StopPlaying if it is larger than the tolerance; the error names the `earlier`
        weights, by their step, that the server still has.
        """
        difference = await self.difference(reply, partial(weights, step))
        if difference <= tolerance:
            return difference
        matching = ""
        for before in sorted(earlier, reverse=True):
            if await self.difference(reply, partial(weights, before)) <= tolerance:
                matching = f", and are those of {earlier[before]}"
                break
        raise StopPlaying(
            f"{self.http.url} still answers with other weights than those of step {step}: the "
            f"log-probabilities of its first reply differ by {difference:.2g} nats{matching}. "
            f"Restart the server and {RESUME}"
        )

    def _check_prompt(self, completion: Completion, prompt: Sequence[int]) -> None:
        served = completion.prompt_token_ids
        if served and list(served) != list(prompt):
            raise StopPlaying(
                f"{self.http.url} tokenises a chat differently ({len(served)} tokens) than the "
                f"base model ({len(prompt)} tokens): it has another tokenizer or chat template; "
                f"{self.hint}"
            )

    def _logprobs(self, reply: ProbeReply, read: ReadWeights) -> Tensor:
        """Return the reply's log-probabilities under these weights: [ids], on the CPU."""
        # One sequence without a shared prefix; its last token predicts nothing and gets no row.
        ids = [*reply.prompt, *reply.ids[:-1]]
        packed = PackedSequences(
            torch.tensor(ids),
            torch.arange(len(ids)),
            [SequenceSpan(slice(0, 0), slice(0, len(ids)), True, slice(0, len(reply.ids)))],
            # Row P - 1 predicts the first token of the reply, row P + i - 1 its token i, for a
            # prompt of P tokens. P + R - 1 rows in all, for a reply of R tokens.
            torch.arange(len(reply.prompt) - 1, len(ids)),
            torch.tensor(reply.ids),
        )
        weights = ConvertedWeights(read(), self.device)
        with torch.no_grad():
            return score_tokens(weights, self.architecture, packed.to(self.device)).logprobs.cpu()


def first_chats(groups: Iterable[TrajectoryGroup]) -> Iterator[Chat]:
    """Yield for each trajectory the chat before its first answer."""
    for trajectory in (each for group in groups for each in group.trajectories):
        if trajectory.turns:
            yield trajectory.turns[0].messages


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

    async def connect(self, probe: WeightProbe) -> ModelCard:
        """Use these connections; returns the server's base model."""
        self._connected = probe
        return await self.identify()

    async def identify(self) -> ModelCard:
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
        earlier = {n: f"step {n}" if n else "the base model" for n in self._earlier(step)}
        await self.probe.prove(reply, step, self._weights, self._tolerance, earlier)
        return reply

    async def calibrate(self, step: int) -> None:
        """Set the tolerance by the server's rounding, while it must have the weights of a step.

        Raises StopPlaying for another model.
        """
        self._tolerance = await self.probe.calibrate(
            self.base_name, partial(self._weights, step), f"--base-model {self._base}"
        )

    def accepts(self, difference: float) -> bool:
        """Return whether a difference in nats may be rounding, under weights that changed much."""
        # A large change is also rounded more, so the tolerance is wider here.
        return difference <= max(self._tolerance, ANOTHER_MODEL)
