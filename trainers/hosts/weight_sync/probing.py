"""Whose weights answer? A reply, and the log-probabilities that weights of ours give it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from arena.core.errors import StopPlaying
from arena.llm.backend import Completion, Message, Request, Sampling
from backends.embedded.weights import Shape
from backends.openai_http import HTTPBackend
from trainers.algorithms.network import Rows, Span, score
from trainers.algorithms.sequences import Encode

Chat = Sequence[Message]
Weights = Callable[[], Mapping[str, Tensor]]
"""Reads weights, which takes time."""
PROBE: Chat = (Message("user", "Who had the lead pipe in the library? suggest, show or accuse"),)
PROBE_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered, as tokens."""

    prompt: list[int]
    ids: list[int]
    logprobs: Tensor  # [ids]


@dataclass(frozen=True, slots=True)
class Prober:
    """Asks a server, and scores its replies."""

    http: HTTPBackend
    encode: Encode
    shape: Shape
    device: torch.device
    hint: str
    """What to do about a server that cannot be used."""

    async def ask(self, name: str, chat: Chat = PROBE) -> Reply:
        """The most likely reply to a chat, by the model of this name.

        Raises BackendError, and StopPlaying for a server whose tokens are not ours.
        """
        sampling = Sampling(temperature=0.0, max_tokens=PROBE_TOKENS)
        completion = await self.http.complete_with(
            name, Request(tuple(chat), sampling, logprobs=True)
        )
        prompt = self.encode(chat)
        self._check(completion, prompt)
        tokens = completion.choices[0].tokens
        ids = [token.id for token in tokens if token.id is not None]
        if not ids or len(ids) != len(tokens):
            raise StopPlaying(
                f"{self.http.url} returns no token ids with its log-probabilities, and without "
                f"them nothing can be trained; {self.hint}"
            )
        return Reply(prompt, ids, torch.tensor([token.logprob for token in tokens]))

    async def difference(self, reply: Reply, weights: Weights) -> float:
        """By how much the reply's log-probabilities differ from those under weights of ours.

        The largest difference, in nats. It is computed aside: games may go on meanwhile.
        """

        def compute() -> float:
            return float((reply.logprobs - self._logprobs(reply, weights())).abs().max())

        return await asyncio.to_thread(compute)

    async def distance(self, reply: Reply, one: Weights, other: Weights) -> float:
        """By how much two weights of ours differ about a reply, in the same way."""

        def compute() -> float:
            gaps = self._logprobs(reply, one()) - self._logprobs(reply, other())
            return float(gaps.abs().max())

        return await asyncio.to_thread(compute)

    def _check(self, completion: Completion, prompt: Sequence[int]) -> None:
        served = completion.prompt_token_ids
        if served and list(served) != list(prompt):
            raise StopPlaying(
                f"{self.http.url} reads a chat as other tokens ({len(served)}) than the base model "
                f"({len(prompt)}): its tokenizer or chat template is another's; {self.hint}"
            )

    def _logprobs(self, reply: Reply, state: Mapping[str, Tensor]) -> Tensor:
        """The reply's log-probabilities: [ids]."""
        ids = [*reply.prompt, *reply.ids[:-1]]
        rows = Rows(
            torch.tensor(ids),
            torch.arange(len(ids)),
            [Span(slice(0, 0), slice(0, len(ids)), True, slice(0, len(reply.ids)))],
            torch.arange(len(reply.prompt) - 1, len(ids)),
            torch.tensor(reply.ids),
        )
        weights = {name: tensor.to(self.device) for name, tensor in state.items()}
        with torch.no_grad():
            return score(weights, self.shape, rows.to(self.device)).logprobs.cpu()
