"""Generation of the choices of one request: concurrently, merged into one stream of tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import ClientDisconnect, Request

if TYPE_CHECKING:
    from backends.embedded.sampler import GeneratedToken, Sampler, SamplingParams
    from backends.server.metrics import ServerMetrics


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
    adapter: str | None
    choices: tuple[ChoiceRequest, ...]
    choices_per_prompt: int = 1
    """Consecutive choices that share a prompt."""
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class ChoiceToken:
    """A token of one of the choices."""

    index: int
    token: GeneratedToken


async def stream_tokens(
    sampler: Sampler, job: GenerationJob, metrics: ServerMetrics
) -> AsyncGenerator[ChoiceToken, None]:
    """Yield the tokens of all choices in the order of sampling.

    The first tokens are held back until every choice has one: after this point the sampler refuses
    none of the choices, so a response can start. Closing the iterator stops the sampling.
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
            running -= item.token.finish_reason is not None  # The last token of its choice.
            if len(started) == len(tasks):
                for ready in held_back:
                    yield ready
                held_back.clear()
    finally:  # Also when the client has disconnected: frees the slots of the sampler.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def collect_choices(
    stream: AsyncIterator[ChoiceToken], choices: int
) -> list[list[GeneratedToken]]:
    """Return the complete tokens of each choice."""
    collected: list[list[GeneratedToken]] = [[] for _ in range(choices)]
    async for item in stream:
        collected[item.index].append(item.token)
    return collected


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
