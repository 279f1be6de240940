"""Generation of the choices of one request: concurrently, merged into one stream of tokens.

A response is either complete or a stream of server-sent events.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import ClientDisconnect, Request

from arena.http.access import ApiError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from backends.embedded.sampler import GeneratedToken, Sampler, SamplingParams
    from backends.server.metrics import RequestRecord, ServerMetrics
    from backends.server.models import ModelEndpoints


@dataclass(frozen=True, slots=True)
class ChoiceRequest:
    """Prompt and sampling parameters of one choice."""

    prompt_ids: list[int]
    params: SamplingParams


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """All choices of one request, in the order of their indices."""

    model: str
    """Name of the model in the response."""
    engine: str
    """What samples, see `Sampler.engine`."""
    adapter: str | None
    choices: tuple[ChoiceRequest, ...]
    choices_per_prompt: int
    """Consecutive choices that share a prompt."""
    record: RequestRecord
    """Counts the tokens for the request log."""
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class ChoiceToken:
    """A token of one of the choices."""

    index: int
    token: GeneratedToken


@dataclass(frozen=True, slots=True)
class Generation:
    """Generation with one sampler and its adapters, for all endpoints."""

    sampler: Sampler
    metrics: ServerMetrics
    models: ModelEndpoints

    def job(
        self, request: Request, model: str, choices: Sequence[ChoiceRequest], per_prompt: int = 1
    ) -> GenerationJob:
        """Return the job for a model or adapter. Raises ApiError if it is not served."""
        name = self.models.resolve(model)
        record: RequestRecord = request.state.record
        record.model = name
        # The choices of a prompt follow each other.
        record.prompt_tokens = sum(len(choice.prompt_ids) for choice in choices[::per_prompt])
        adapter = None if name == self.sampler.name else name
        return GenerationJob(name, self.sampler.engine, adapter, tuple(choices), per_prompt, record)

    def limit_tokens(self, prompt: Sequence[int], max_tokens: int | None, param: str) -> int:
        """Return the maximal length of the answer: as requested, or the rest of the context.

        Raises ApiError, for the field `param`, if not even one token fits after the prompt.
        """
        context = self.sampler.context_length
        available = context - len(prompt)
        if available < 1:
            message = (
                f"This model's maximum context length is {context} tokens, including the answer, "
                f"and your prompt has {len(prompt)}. Shorten it."
            )
            raise ApiError(400, message, param=param, code="context_length_exceeded")
        return min(max_tokens or available, available)

    async def collect(self, request: Request, job: GenerationJob) -> list[list[GeneratedToken]]:
        """Return all tokens of each choice. Raises ArenaError, ClientDisconnect."""
        collected: list[list[GeneratedToken]] = [[] for _ in job.choices]

        async def read() -> list[list[GeneratedToken]]:
            async for item in stream:
                collected[item.index].append(item.token)
            return collected

        async with aclosing(stream_tokens(self.sampler, job, self.metrics)) as stream:
            return await cancel_on_disconnect(request, read())

    async def stream(
        self, request: Request, job: GenerationJob
    ) -> AsyncGenerator[ChoiceToken, None]:
        """Return the tokens after the first one has arrived. Raises ArenaError, ClientDisconnect.

        Before the head of the response is sent, an error can still change its status.
        """
        stream = stream_tokens(self.sampler, job, self.metrics)
        first = await cancel_on_disconnect(request, anext(stream))

        async def tokens() -> AsyncGenerator[ChoiceToken, None]:
            async with aclosing(stream):
                yield first
                async for item in stream:
                    yield item

        return tokens()


def format_event(data: dict[str, JsonValue]) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


async def stream_tokens(
    sampler: Sampler, job: GenerationJob, metrics: ServerMetrics
) -> AsyncGenerator[ChoiceToken, None]:
    """Yield the tokens of all choices in the order of sampling.

    The first tokens are held back until every choice has one: after this point the sampler refuses
    none of the choices, so a response can start. They follow in the order of the choices, since
    the first choice of a prompt brings its log-probabilities. Closing the iterator stops the
    sampling.
    """
    queue: asyncio.Queue[ChoiceToken | Exception] = asyncio.Queue()

    async def generate(index: int, choice: ChoiceRequest) -> None:
        try:
            async for token in sampler.generate(choice.prompt_ids, choice.params, job.adapter):
                queue.put_nowait(ChoiceToken(index, token))
        except Exception as error:  # Raised again by the loop that reads the queue.
            queue.put_nowait(error)

    # One task per choice; the sampler batches them. The queue merges their tokens.
    tasks = [asyncio.create_task(generate(n, choice)) for n, choice in enumerate(job.choices)]
    running = len(tasks)
    started: set[int] = set()
    held_back: list[ChoiceToken] = []
    try:
        while running:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            if not started:
                metrics.first_token_seconds.observe(time.perf_counter() - job.started)
            started.add(item.index)
            held_back.append(item)
            job.record.completion_tokens += 1
            running -= item.token.finish_reason is not None  # The last token of its choice.
            if len(started) == len(tasks):
                for ready in sorted(held_back, key=lambda token: token.index):
                    yield ready
                held_back.clear()
    finally:  # Also when the client has disconnected: frees the slots of the sampler.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


WorkResult = TypeVar("WorkResult")


async def cancel_on_disconnect(request: Request, work: Awaitable[WorkResult]) -> WorkResult:
    """Return the result of the work; cancel it and raise ClientDisconnect if the client leaves."""

    async def wait_for_disconnect() -> None:
        # After the body, the only message that `receive` can return is the disconnect.
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(wait_for_disconnect())
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
