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
from backends.embedded.sampler import Draw, Drawn, Sampler

_shared: dict[Path, _Shared] = {}


@dataclass(slots=True)
class _Shared:
    """One sampler per checkpoint, however many seats it plays; the last to leave closes it."""

    sampler: Sampler
    users: int = 0


@dataclass(slots=True)
class _Answer:
    """One of a request's answers as it grows."""

    drawn: list[Drawn] = field(default_factory=list)
    seconds_to_first: float = 0.0


class SamplerBackend:
    """A sampler as a `Backend`; whoever made the sampler closes it.

    `adapter` says at each request under which name the weights are to be found (None: the
    sampler's own), and `version` which training step they are of.
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
        adapter, version = self._adapter(), self._version()
        prompt = self.sampler.encode(request.messages)
        try:
            answers = await self._answers(prompt, _draws(request), started, adapter)
        except UsageError as error:
            raise BackendError(str(error), "bad_request") from None
        return Completion(
            choices=tuple(_choice(answer, request.logprobs) for answer in answers),
            model=self.model,
            usage=Usage(
                prompt_tokens=len(prompt),
                completion_tokens=sum(len(answer.drawn) for answer in answers),
                cached_tokens=answers[0].drawn[0].cached_tokens,
            ),
            cost=0.0,
            policy_version=version,
            prompt_token_ids=tuple(prompt),
            seconds=time.perf_counter() - started,
            seconds_to_first_token=min(answer.seconds_to_first for answer in answers),
        )

    async def _answers(
        self, prompt: Sequence[int], draws: Sequence[Draw], started: float, adapter: str | None
    ) -> list[_Answer]:
        """All of them at once; if one fails the others are given up."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._answer(prompt, draw, started, adapter))
                    for draw in draws
                ]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _answer(
        self, prompt: Sequence[int], draw: Draw, started: float, adapter: str | None
    ) -> _Answer:
        answer = _Answer()
        async with aclosing(self.sampler.generate(prompt, draw, adapter)) as stream:
            async for drawn in stream:
                if not answer.drawn:
                    answer.seconds_to_first = time.perf_counter() - started
                answer.drawn.append(drawn)
        return answer

    async def close(self) -> None:
        """Nothing: the sampler is somebody else's."""


class EmbeddedBackend(SamplerBackend):
    """A checkpoint's folder as a `Backend`. All that name one folder share its sampler."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if folder not in _shared:
            _shared[folder] = _Shared(Sampler(folder))
        _shared[folder].users += 1
        self._closed = False
        super().__init__(_shared[folder].sampler)

    async def close(self) -> None:
        """Leave the sampler; it ends with its last user."""
        if self._closed:
            return
        self._closed = True
        shared = _shared[self._folder]
        shared.users -= 1
        if shared.users == 0:
            del _shared[self._folder]
            await shared.sampler.close()


def _draws(request: Request) -> list[Draw]:
    """One for each of the `n` answers; the first has the request's own seed."""
    sampling = request.sampling
    if sampling.n < 1:
        raise BackendError(f"n={sampling.n}: must be at least 1", "bad_request")
    return [
        Draw(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            stop=sampling.stop,
            seed=_seed(sampling.seed, number),
            guided_choice=request.guided_choice,
            guided_regex=request.guided_regex,
            guided_json=request.guided_json,
        )
        for number in range(sampling.n)
    ]


def _seed(seed: int | None, number: int) -> int | None:
    """An independent seed for each answer of one request."""
    if seed is None or number == 0:
        return seed
    return random.Random(f"{seed}/{number}").getrandbits(63)


def _choice(answer: _Answer, logprobs: bool) -> Choice:
    tokens = tuple(
        Token(drawn.id, drawn.text, drawn.logprob, drawn.sampled_logprob) for drawn in answer.drawn
    )
    return Choice(
        text="".join(drawn.text for drawn in answer.drawn),
        finish_reason=answer.drawn[-1].finish_reason or "unknown",
        tokens=tokens if logprobs else (),
    )
