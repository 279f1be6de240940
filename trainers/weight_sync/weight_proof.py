"""Proofs of the weights that a server has, by the log-probabilities of its replies.

The server returns a short reply with its log-probabilities. The same reply is scored here under
known weights. Equal log-probabilities show that the server has these weights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from arena.core.errors import StopPlaying
from arena.llm.backend import Completion, Message, Request, Sampling
from backends.embedded.architecture import Architecture
from backends.embedded.layers import ConvertedWeights
from backends.openai_http import HTTPBackend
from trainers.algorithms.network import PackedSequences, SequenceSpan, score_tokens
from trainers.trajectory import Encode, TrajectoryGroup

Chat = Sequence[Message]
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
class KnownWeights:
    """The weights of training steps, as this process computes with them."""

    base: str
    """Description of the base model, for errors."""
    weights: Callable[[int], Mapping[str, Tensor]]
    """Function that reads the weights of a step, under transformers' names; may take seconds."""
    encode: Encode
    architecture: Architecture
    device: torch.device

    async def logprobs(self, reply: ProbeReply, step: int) -> Tensor:
        """Return the log-probabilities of a reply under the weights of a step: [ids], in nats."""
        # In a thread: games may continue meanwhile.
        return await asyncio.to_thread(self._score, reply, step)

    def _score(self, reply: ProbeReply, step: int) -> Tensor:
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
        converted = ConvertedWeights(self.weights(step), self.device)
        with torch.no_grad():
            scores = score_tokens(converted, self.architecture, packed.to(self.device))
        return scores.logprobs.cpu()


class WeightProof:
    """Compares the replies of one server with known weights."""

    def __init__(self, http: HTTPBackend, known: KnownWeights, hint: str) -> None:
        """Ask nothing yet. `hint` ends error messages: the remedy for an unsuitable server."""
        self.http = http
        self.known = known
        self._hint = hint
        self._tolerance = EXACT

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
        prompt = self.known.encode(chat)
        self._check_prompt(completion, prompt)
        tokens = completion.choice.tokens
        ids = [token.id for token in tokens if token.id is not None]
        if not ids or len(ids) != len(tokens):
            raise StopPlaying(
                f"{self.http.url} returns no token ids with its log-probabilities, and without "
                f"them nothing can be trained; {self._hint}"
            )
        return ProbeReply(prompt, ids, torch.tensor([token.logprob for token in tokens]))

    async def difference(self, reply: ProbeReply, step: int) -> float:
        """Return max |log p_server - log p_step| over the reply's tokens, in nats."""
        return _distance(reply.logprobs, await self.known.logprobs(reply, step))

    async def metrics(self, reply: ProbeReply, step: int, before: int) -> dict[str, float]:
        """Return how far a reply is from a step's weights, and these from earlier ones, in nats."""
        new, old = [await self.known.logprobs(reply, each) for each in (step, before)]
        return {
            "swap_difference": _distance(reply.logprobs, new),
            "swap_moved": _distance(new, old),
        }

    async def calibrate(self, name: str, step: int) -> None:
        """Set the tolerance by the server's rounding, while `name` must have a step's weights.

        Raises StopPlaying for another model.
        """
        difference = await self.difference(await self.request(name), step)
        # Written so that NaN fails too.
        if not difference <= ANOTHER_MODEL:
            raise StopPlaying(
                f"{self.http.url} answers with another model ({name}) than {self.known.base}: the "
                f"log-probabilities of its reply differ by {difference:.2g} nats; {self._hint}"
            )
        # The weights are equal here, so the difference is rounding alone.
        self._tolerance = max(EXACT, ROUNDING * difference)

    async def prove(self, name: str, step: int, chat: Chat = PROBE) -> ProbeReply:
        """Return the reply under this name. Raises StopPlaying unless it is that of the step."""
        reply = await self.request(name, chat)
        difference = await self.difference(reply, step)
        if difference <= self._tolerance:
            return reply
        raise StopPlaying(
            f"{self.http.url} still answers with other weights than those of step {step}: the "
            f"log-probabilities of its first reply differ by {difference:.2g} nats. "
            f"Restart the server and {RESUME}"
        )

    def _check_prompt(self, completion: Completion, prompt: Sequence[int]) -> None:
        served = completion.prompt_token_ids
        if served and list(served) != list(prompt):
            raise StopPlaying(
                f"{self.http.url} tokenises a chat differently ({len(served)} tokens) than the "
                f"base model ({len(prompt)} tokens): it has another tokenizer or chat template; "
                f"{self._hint}"
            )


def first_chat(groups: Iterable[TrajectoryGroup]) -> Chat:
    """Return a chat of the games before the first answer: it is where new weights matter."""
    turns = (one.turns for group in groups for one in group.trajectories if one.turns)
    return next((first.messages for first, *_ in turns), PROBE)


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())
