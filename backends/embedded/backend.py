"""The embedded backend: chat requests answered by a `Sampler` in this process."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from arena.core.errors import BackendError, UsageError
from arena.llm.backend import Choice, Completion, Request, Token, Usage
from backends.embedded.sampler import GeneratedToken, Sampler, SamplingParams

_shared_samplers: dict[Path, _SharedSampler] = {}


@dataclass(slots=True)
class _SharedSampler:
    """One sampler per checkpoint, shared by all its backends; the last one closes it."""

    sampler: Sampler
    users: int = 0


@dataclass(slots=True)
class _PartialChoice:
    """One choice of a completion while its tokens arrive."""

    tokens: list[GeneratedToken] = field(default_factory=list)
    seconds_to_first_token: float = 0.0


class SamplerBackend:
    """Backend for a sampler that the caller owns and closes.

    Args:
        sampler: The sampler.
        adapter: Called for each request; returns the name of the adapter that answers it, or None
            for the sampler's base weights.
        version: Called for each request; returns the training step of those weights, if known.
    """

    def __init__(
        self,
        sampler: Sampler,
        adapter: Callable[[], str | None] = lambda: None,
        version: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.sampler = sampler
        self.model = sampler.name
        self.context_length: int | None = sampler.context_length
        self._adapter = adapter
        self._version = version

    async def complete(self, request: Request) -> Completion:
        """Answer once. Raises ContextOverflow, QueueFull, or BackendError for a bad request."""
        started = time.perf_counter()
        # Read both before the first await, so that they describe the same weights.
        adapter, version = self._adapter(), self._version()
        prompt = self.sampler.encode(request.messages)
        try:
            choices = await self._choices(prompt, _sampling_params(request), started, adapter)
        except UsageError as error:
            raise BackendError(str(error), "bad_request") from None
        return Completion(
            choices=tuple(_choice(choice, request.logprobs) for choice in choices),
            model=self.model,
            usage=Usage(
                prompt_tokens=len(prompt),
                completion_tokens=sum(len(choice.tokens) for choice in choices),
                # The other choices find the prompt of the first one in the cache.
                cached_tokens=choices[0].tokens[0].cached_tokens,
            ),
            cost=0.0,  # Computed on this machine.
            policy_version=version,
            prompt_token_ids=tuple(prompt),
            seconds=time.perf_counter() - started,
            seconds_to_first_token=min(choice.seconds_to_first_token for choice in choices),
        )

    async def _choices(
        self,
        prompt: Sequence[int],
        params: Sequence[SamplingParams],
        started: float,
        adapter: str | None,
    ) -> list[_PartialChoice]:
        """Generate all choices concurrently; if one fails, cancel the others."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._generate(prompt, one, started, adapter))
                    for one in params
                ]
        except ExceptionGroup as errors:
            # All choices have the same request, so the first error explains all.
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _generate(
        self, prompt: Sequence[int], params: SamplingParams, started: float, adapter: str | None
    ) -> _PartialChoice:
        choice = _PartialChoice()
        # Closing the stream cancels the request in the sampler, also after an exception.
        async with aclosing(self.sampler.generate(prompt, params, adapter)) as stream:
            async for token in stream:
                if not choice.tokens:
                    choice.seconds_to_first_token = time.perf_counter() - started
                choice.tokens.append(token)
        return choice

    async def close(self) -> None:
        """Do nothing: the sampler belongs to the caller."""


class EmbeddedBackend(SamplerBackend):
    """Backend for a checkpoint folder. All backends of one folder share its sampler."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Loading costs seconds and memory, and one sampler batches the requests of all seats.
        if folder not in _shared_samplers:
            _shared_samplers[folder] = _SharedSampler(Sampler(folder))
        _shared_samplers[folder].users += 1
        self._closed = False
        super().__init__(_shared_samplers[folder].sampler)

    async def close(self) -> None:
        """Release the sampler; its last user closes it."""
        if self._closed:
            return  # A second call must not release the share of another backend.
        self._closed = True
        shared = _shared_samplers[self._folder]
        shared.users -= 1
        if shared.users == 0:
            del _shared_samplers[self._folder]
            await shared.sampler.close()


def _sampling_params(request: Request) -> list[SamplingParams]:
    """Return the parameters of each of the `n` choices; they differ in the seed only."""
    sampling = request.sampling
    if sampling.n < 1:
        raise BackendError(f"n={sampling.n}: must be at least 1", "bad_request")
    return [
        SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            stop=sampling.stop,
            seed=_choice_seed(sampling.seed, number),
            guided_choice=request.guided_choice,
            guided_regex=request.guided_regex,
            guided_json=request.guided_json,
        )
        for number in range(sampling.n)
    ]


def _choice_seed(seed: int | None, number: int) -> int | None:
    """Return an independent seed for each choice; the first one has the request's own seed."""
    if seed is None or number == 0:
        return seed
    # Hashed, because seed + number would make choice 1 of one request equal to choice 0 of the next
    # seed.
    return random.Random(f"{seed}/{number}").getrandbits(63)


def _choice(choice: _PartialChoice, logprobs: bool) -> Choice:
    tokens = tuple(
        Token(token.id, token.text, token.logprob, token.sampled_logprob) for token in choice.tokens
    )
    return Choice(
        text="".join(token.text for token in choice.tokens),
        finish_reason=choice.tokens[-1].finish_reason or "unknown",
        tokens=tokens if logprobs else (),
    )
