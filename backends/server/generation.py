"""Generation of the choices of one request: concurrently, merged into one stream of tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from arena.core.errors import BackendError, ContextOverflow, MissingDependency, UsageError
from backends.embedded.sampler import QueueFull
from backends.server.access import RETRY_AFTER, ApiError

if TYPE_CHECKING:
    from starlette.requests import Request

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


@dataclass(frozen=True, slots=True)
class _ChoiceEnd:
    """The end of a choice, with the error if it failed."""

    error: BaseException | None


async def stream_tokens(
    sampler: Sampler, job: GenerationJob, metrics: ServerMetrics
) -> AsyncGenerator[ChoiceToken, None]:
    """Yield the tokens of all choices in the order of sampling.

    Closing the iterator stops the sampling.
    """
    queue: asyncio.Queue[ChoiceToken | _ChoiceEnd] = asyncio.Queue()

    async def generate(index: int, choice: ChoiceRequest) -> None:
        try:
            async for token in sampler.generate(choice.prompt_ids, choice.params, job.adapter):
                queue.put_nowait(ChoiceToken(index, token))
        except BaseException as error:  # Raised again by the loop that reads the queue.
            queue.put_nowait(_ChoiceEnd(error))
            raise
        queue.put_nowait(_ChoiceEnd(None))

    # One task per choice; the sampler batches them. The queue merges their tokens.
    tasks = [asyncio.create_task(generate(n, choice)) for n, choice in enumerate(job.choices)]
    running = len(tasks)
    is_first = True
    try:
        while running:
            item = await queue.get()
            if isinstance(item, _ChoiceEnd):
                if item.error is not None:
                    raise item.error
                running -= 1
                continue
            if is_first:
                metrics.first_token_seconds.observe(time.perf_counter() - job.started)
                is_first = False
            yield item
    finally:  # Also when the client has disconnected: frees the slots of the sampler.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_until_all_started(
    stream: AsyncIterator[ChoiceToken], choices: int
) -> list[ChoiceToken]:
    """Return the tokens up to the first token of the last choice.

    After this point the sampler refuses none of the choices, so the response can start.
    """
    tokens: list[ChoiceToken] = []
    async for token in stream:
        tokens.append(token)
        if len({token.index for token in tokens}) == choices:
            break
    return tokens


async def collect_choices(
    stream: AsyncIterator[ChoiceToken], choices: int
) -> list[list[GeneratedToken]]:
    """Return the complete tokens of each choice."""
    collected: list[list[GeneratedToken]] = [[] for _ in range(choices)]
    async for item in stream:
        collected[item.index].append(item.token)
    return collected


def to_api_error(error: Exception) -> ApiError:
    """Return the response for an error of the sampler; raises all other errors again."""
    match error:
        case ApiError():
            return error
        case ContextOverflow():  # Before BackendError, its base class.
            return ApiError(400, str(error), param="messages", code="context_length_exceeded")
        case QueueFull():
            headers = {"Retry-After": RETRY_AFTER}
            return ApiError(429, str(error), code="queue_full", headers=headers)
        case UsageError():
            return ApiError(400, str(error), code="invalid_value")
        case MissingDependency():
            return ApiError(501, str(error))
        case BackendError():  # The sampler is being closed.
            return ApiError(503, str(error), headers={"Retry-After": RETRY_AFTER})
    raise error


WorkResult = TypeVar("WorkResult")


class ClientDisconnected(Exception):
    """The client has closed the connection before the response was complete."""


async def cancel_on_disconnect(
    request: Request, work: Coroutine[None, None, WorkResult]
) -> WorkResult:
    """Return the result of the work; cancel it if the client disconnects.

    Raises ClientDisconnected.
    """
    # After the body, the only message that `receive` can return is the disconnect.
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnected
        return working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
