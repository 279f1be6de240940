"""Test of which weights a server answers with.

The server returns a short reply with its log-probabilities. The same reply is scored here under
known weights. Equal log-probabilities show that the server has these weights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from arena.core.errors import StopPlaying
from arena.llm.backend import Completion, Message, Request, Sampling
from backends.embedded.architecture import Architecture
from backends.openai_http import HTTPBackend
from trainers.algorithms.network import PackedSequences, SequenceSpan, score_tokens
from trainers.algorithms.sequences import Encode
from trainers.trajectory import TrajectoryGroup

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
        weights = {name: tensor.to(self.device) for name, tensor in read().items()}
        with torch.no_grad():
            return score_tokens(weights, self.architecture, packed.to(self.device)).logprobs.cpu()


def first_chats(groups: Iterable[TrajectoryGroup]) -> Iterator[Chat]:
    """Yield for each trajectory the chat before its first answer."""
    for trajectory in (each for group in groups for each in group.trajectories):
        if trajectory.turns:
            yield trajectory.turns[0].messages
