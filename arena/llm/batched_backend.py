"""A backend whose requests are answered by batches, at half the price.

A backend makes its request as always; what would go over the wire is collected instead, and sent as
one batch when no further request comes: all games so advance by one decision per batch. The journal
of the run names the batch of each request, so that a run that was killed picks them up again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from arena.core.errors import BackendError, StopPlaying
from arena.core.text import duration_in_words, pluralize
from arena.llm.backend import Backend, Completion, Request, traits_of
from arena.llm.batches import (
    PRICE_SHARE,
    BatchEndpoint,
    BatchJournal,
    BatchState,
    WireRequest,
    WireResponse,
    current_sender,
)
from arena.llm.response_cache import key_of
from arena.llm.route import backoff
from arena.llm.settings import Limits

T = TypeVar("T")
Responses = dict[str, WireResponse]
"""Responses of a batch, by the key of the request."""
BatchTask = asyncio.Task[Responses | None]
"""Waits for a batch; None for one that was never submitted."""

LONGEST_WAIT = 30.0
"""Seconds between two looks at a batch, at most."""
LINE_INTERVAL = 300.0
"""Seconds between two lines about the progress of a batch, at least."""
UNANSWERED = WireResponse(503, b'{"error": {"message": "the batch is over without an answer"}}')


@dataclass(slots=True)
class _BatchCall:
    """One call of the backend, and the error of its batch."""

    key: str
    answer: Callable[[str, WireRequest], Awaitable[WireResponse]]
    error: Exception | None = None
    """The backend takes it for an error of its connection, so it is kept here."""

    async def send(self, wire: WireRequest) -> WireResponse:
        try:
            return await self.answer(self.key, wire)
        except Exception as error:
            self.error = error
            raise


class BatchedBackend:
    """Backend whose requests are answered by batches of its provider.

    `journal` is set before the first call. An error that concerns a whole batch is StopPlaying; the
    error of one request is that of the backend, and its next try is in another batch.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        endpoint: BatchEndpoint,
        limits: Limits,
        notify: Callable[[str], None],
    ) -> None:
        self.model = backend.model
        self.context_length = backend.context_length
        # Hours lie between two requests of a game: no cache of prompts holds the first one.
        self.traits = replace(traits_of(backend), by_batch=True, prompt_cache=None)
        self.journal: BatchJournal | None = None
        self._name = name
        self._backend = backend
        self._endpoint = endpoint
        self._limits = limits
        self._notify = notify
        self._in_flight: set[str] = set()
        self._queue: dict[str, tuple[WireRequest, asyncio.Future[BatchTask]]] = {}
        """Requests that wait for the next batch, by key."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[str, BatchTask] = {}
        """By the name of the batch."""

    async def complete(self, request: Request) -> Completion:
        # A mark of a prefix costs more, and no request comes in time to read it.
        request = replace(request, repeated=0)
        call = _BatchCall(self._new_key(request), self._answer)
        token = current_sender.set(call.send)
        try:
            completion = await self._backend.complete(request)
        except BackendError:
            if call.error is not None:
                raise call.error from None
            self._kept.forget(call.key)
            raise
        finally:
            current_sender.reset(token)
            self._in_flight.discard(call.key)
        cost = completion.cost
        return replace(completion, cost=None if cost is None else PRICE_SHARE * cost)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._endpoint.close()
        await self._backend.close()

    @property
    def _kept(self) -> BatchJournal:
        assert self.journal is not None, "LLMService.keep_batches opens it"
        return self.journal

    def _new_key(self, request: Request) -> str:
        """Return the key of a request: its digest, numbered among equal ones in flight."""
        digest = key_of(self._name, request)[:48]
        key = next(key for n in count() if (key := f"{digest}-{n}") not in self._in_flight)
        self._in_flight.add(key)
        return key

    async def _answer(self, key: str, wire: WireRequest) -> WireResponse:
        """Return the response of the batch that a request is in, or else of the next one."""
        responses: Responses | None = None
        while responses is None and (name := self._kept.batch_of(key)) is not None:
            task = self._tasks.get(name) or self._start(name, self._picked_up(name, wire))
            responses = await asyncio.shield(task)
        if responses is None:
            queued: asyncio.Future[BatchTask] = asyncio.get_running_loop().create_future()
            self._queue[key] = wire, queued
            self._restart_timer()
            responses = await asyncio.shield(await queued)
        # Taken out, so that a run does not hold all its answers in memory.
        return responses.pop(key, UNANSWERED) if responses else UNANSWERED

    def _start(self, name: str, work: Coroutine[None, None, Responses | None]) -> BatchTask:
        self._tasks[name] = task = asyncio.ensure_future(work)
        return task

    def _restart_timer(self) -> None:
        """Submit the queue once no further request has come for a moment."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._limits.batch_seconds, self._submit_queue)

    def _submit_queue(self) -> None:
        queue, self._queue = self._queue, {}
        for requests in self._parts({key: wire for key, (wire, _) in queue.items()}):
            name = secrets.token_hex(8)
            task = self._start(name, self._run(name, requests))
            for key in requests:
                queued = queue[key][1]
                if not queued.done():  # Else its game was cancelled.
                    queued.set_result(task)

    def _parts(self, queue: Mapping[str, WireRequest]) -> Iterator[dict[str, WireRequest]]:
        """Yield the requests of single batches: with one address, and not too many."""
        part: dict[str, WireRequest] = {}
        size, url = 0, ""
        for key, wire in sorted(queue.items(), key=lambda item: item[1].url):
            size += len(wire.body)
            is_full = len(part) == self._endpoint.most_requests or size > self._endpoint.most_bytes
            if part and (is_full or wire.url != url):
                yield part
                part, size = {}, len(wire.body)
            part[key], url = wire, wire.url
        if part:
            yield part

    async def _run(self, name: str, requests: Mapping[str, WireRequest]) -> Responses:
        """Submit a batch, and wait for it. Raises StopPlaying if the provider refuses it."""
        self._kept.begin(name, requests)
        like = next(iter(requests.values()))
        batch = await self._submit(name, requests, like)
        self._kept.submitted(name, batch)
        self._notify(
            f"{self._name}: batch {batch} with {pluralize(len(requests), 'request')} is submitted"
        )
        state = await self._wait(batch, like, len(requests))
        if not state.fault:
            return await self._persist(lambda: self._endpoint.results(batch, like))
        self._kept.drop(name)
        if not (state.is_too_large and len(requests) > 1):
            raise StopPlaying(f"{self._name}: batch {batch} was refused: {state.fault}")
        # The limit is one of tokens that wait: the second half follows when the first is over.
        keys, responses = list(requests), Responses()
        for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
            part = {key: requests[key] for key in half}
            responses |= await self._run(secrets.token_hex(8), part)
        return responses

    async def _submit(
        self, name: str, requests: Mapping[str, WireRequest], like: WireRequest
    ) -> str:
        """Submit a batch once, even if the answer to a submission is lost."""
        since, tries = time.time(), count()

        async def submit() -> str:
            found = None
            if next(tries):
                found = await self._endpoint.find(name, requests.keys(), since, like)
            return found or await self._endpoint.submit(name, requests)

        return await self._persist(submit)

    async def _picked_up(self, name: str, like: WireRequest) -> Responses | None:
        """Return the responses of a batch of an earlier session; None if there is no such batch."""
        batch, since, keys = self._kept.batch(name)
        if batch is None:
            # The session was killed while it submitted the batch.
            find = self._endpoint.find
            batch = await self._persist(lambda: find(name, keys, since, like))
        if batch is not None:
            self._kept.submitted(name, batch)
            self._notify(f"{self._name}: batch {batch} of an earlier session is picked up")
            if not (await self._wait(batch, like, len(keys))).fault:
                found = batch
                return await self._persist(lambda: self._endpoint.results(found, like))
        self._kept.drop(name)
        return None

    async def _wait(self, batch: str, like: WireRequest, number: int) -> BatchState:
        """Return the state of a batch once it is over."""
        start = shown = time.monotonic()
        seconds = self._limits.batch_seconds
        while True:
            state = await self._persist(lambda: self._endpoint.state(batch, like))
            now = time.monotonic()
            if state.is_over:
                taken = duration_in_words(now - start)
                self._notify(f"{self._name}: batch {batch} is over after {taken}")
                return state
            if now - shown > LINE_INTERVAL:
                shown = now
                self._notify(f"{self._name}: batch {batch}: {state.answered} of {number} answered")
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, LONGEST_WAIT)

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it succeeds. Raises StopPlaying if it cannot, or not within the patience."""
        start, failures = time.monotonic(), 0
        while True:
            try:
                return await call()
            except BackendError as error:
                failures += 1
                is_late = time.monotonic() - start > self._limits.patience
                if is_late or not error.retryable:
                    raise StopPlaying(
                        f"{self._name}: {error}; batches that were submitted are not lost: "
                        "--resume picks them up"
                    ) from None
                await asyncio.sleep(backoff(self._limits, failures, error.retry_after))
