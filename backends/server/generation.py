"""Drawing the answers to one request: several at once, merged in the order they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from arena.core.errors import BackendError, ContextOverflow, MissingDependency, UsageError
from backends.embedded.sampler import QueueFull
from backends.server.errors import RETRY_AFTER, ApiError

if TYPE_CHECKING:
    from starlette.requests import Request

    from backends.embedded.sampler import Draw, Drawn, Sampler
    from backends.server.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Ask:
    """One answer that is wanted."""

    prompt_ids: list[int]
    draw: Draw


@dataclass(frozen=True, slots=True)
class Job:
    """All answers that one request wants, in the order of their choices' indices."""

    model: str
    """As the client will read it."""
    adapter: str | None
    asks: tuple[Ask, ...]
    prompt_tokens: int
    """Each prompt counted once, however many answers it gets."""
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of one of the answers."""

    index: int
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class _Ended:
    """An answer is whole, or has failed."""

    error: BaseException | None


async def pieces(sampler: Sampler, job: Job, metrics: Metrics) -> AsyncGenerator[Piece, None]:
    """The tokens of all answers as they are drawn. Closing the iterator stops the drawing."""
    queue: asyncio.Queue[Piece | _Ended] = asyncio.Queue()

    async def draw(index: int, ask: Ask) -> None:
        try:
            async for drawn in sampler.generate(ask.prompt_ids, ask.draw, job.adapter):
                queue.put_nowait(Piece(index, drawn))
        except BaseException as error:  # Passed on to whoever reads the queue.
            queue.put_nowait(_Ended(error))
            raise
        queue.put_nowait(_Ended(None))

    tasks = [asyncio.create_task(draw(index, ask)) for index, ask in enumerate(job.asks)]
    running = len(tasks)
    waiting_for_first = True
    try:
        while running:
            item = await queue.get()
            if isinstance(item, _Ended):
                if item.error is not None:
                    raise item.error
                running -= 1
                continue
            if waiting_for_first:
                metrics.first_token_seconds.observe(time.perf_counter() - job.started)
                waiting_for_first = False
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def begun(running: AsyncIterator[Piece], answers: int) -> list[Piece]:
    """The first pieces, until every answer has begun: what can be refused has been by then."""
    early: list[Piece] = []
    async for piece in running:
        early.append(piece)
        if len({piece.index for piece in early}) == answers:
            break
    return early


async def collected(running: AsyncIterator[Piece], answers: int) -> list[list[Drawn]]:
    """All answers, whole."""
    drawn: list[list[Drawn]] = [[] for _ in range(answers)]
    async for piece in running:
        drawn[piece.index].append(piece.drawn)
    return drawn


def refusal(error: Exception) -> ApiError:
    """What a client is told when the sampler refuses a request."""
    match error:
        case ApiError():
            return error
        case ContextOverflow():
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


Result = TypeVar("Result")


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


async def unless_gone(request: Request, work: Coroutine[None, None, Result]) -> Result:
    """Do the work, but stop it when the client disconnects. Raises ClientGone."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
