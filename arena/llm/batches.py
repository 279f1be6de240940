"""A backend whose requests are answered by batches, at half the price.

A backend makes its request as always; what would go over the wire is collected instead, and sent as
one batch when no further request comes: all games so advance by one decision per batch. The journal
of the run names the batch of each request, so that a run that was killed picks them up again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

from arena.core.errors import BackendError, StopPlaying
from arena.core.text import pluralize
from arena.llm.attempts import backoff
from arena.llm.backend import Backend, Completion, Request, traits_of
from arena.llm.response_cache import ResponseCache, key_of
from arena.llm.settings import Limits

T = TypeVar("T")
BATCHES = "batches.journal"
"""Name of the journal of batches in the folder of a run."""
PRICE_SHARE = 0.5
"""Share of the usual price that a request in a batch costs; other models are not batched."""
WITHOUT_HASTE = {
    "concurrency": 10**9,
    "requests_per_minute": None,
    "tokens_per_minute": None,
    "call_timeout": 30 * 86_400.0,
    "breaker_failures": 10**9,
}
"""Limits of calls that batches answer, within a day: any number of them may wait, and a request
that a batch does not answer says nothing about the provider."""
MOST_REQUESTS = 2000
"""Requests of a batch at most. Providers take more of them, but not more than about 200 MB."""
LONGEST_WAIT = 30.0
"""Seconds between two looks at a batch, at most."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """HTTP request of one call, as it would go to the provider."""

    url: str
    headers: Mapping[str, str]
    """Headers with lower-case names."""
    body: bytes


@dataclass(frozen=True, slots=True)
class WireResponse:
    """HTTP response of one call, as a batch states it."""

    status: int
    body: bytes


Responses = dict[str, WireResponse]
"""Responses of a batch, by the key of the request."""
UNANSWERED = WireResponse(503, b'{"error": {"message": "the batch is over without an answer"}}')
Sender = Callable[[WireRequest], Awaitable[WireResponse]]
current_sender: ContextVar[Sender | None] = ContextVar("current_sender", default=None)
"""Answers the HTTP request of the current call in place of a connection."""


@dataclass(slots=True)
class StoredBatch:
    """A batch in the journal."""

    name: str
    since: float
    """Time of its submission, in seconds since 1970."""
    keys: list[str]
    id: str | None = None
    """Identifier at its provider; None until the submission is answered."""


class BatchRefused(StopPlaying):
    """The provider has refused a batch as a whole."""


class BatchEndpoint(Protocol):
    """Endpoint of a provider's batches. `like` has the address and the key of a batch.

    Each method raises BackendError.
    """

    async def submit(self, name: str, requests: Mapping[str, WireRequest]) -> str:
        """Submit requests by their keys; return the provider's identifier of the batch."""

    async def find(self, batch: StoredBatch, like: WireRequest) -> str | None:
        """Return the identifier of a batch whose submission was cut off; None if there is none."""

    async def results(self, batch: str, like: WireRequest) -> Responses | None:
        """Return the responses of a batch; None if it is not over. Raises BatchRefused."""

    async def close(self) -> None:
        """Close all connections."""


class BatchJournal(ResponseCache):
    """The answers that the batches of a run have given, and the requests without an answer.

    An answer that it holds counts as cached in the ledger, but keeps its cost: the run has paid it.
    Raises StopPlaying if it cannot be written: answers would be paid for twice.
    """

    def __init__(self, path: Path, notify: Callable[[str], None]) -> None:
        self.batch_of: dict[str, StoredBatch] = {}
        """Batches by the keys of their requests."""
        super().__init__(path, notify)

    def get(self, spec: str, request: Request) -> Completion | None:
        kept = super().get(spec, request)
        return replace(kept, cached=False) if kept else None

    def store(self, batch: StoredBatch) -> None:
        """Store a batch: before it is submitted, and once its identifier is known."""
        self._write("batch", json.dumps(asdict(batch)))

    def _note(self, key: str, text: bytes, place: int) -> None:
        # A session that was killed in a line has not done what the line says.
        with suppress(ValueError):
            if key == "batch":
                batch = StoredBatch(**json.loads(text))
                self.batch_of.update(dict.fromkeys(batch.keys, batch))
            else:
                super()._note(key, text, place)

    def _give_up(self, error: OSError) -> NoReturn:
        raise StopPlaying(f"journal of batches {self._path}: {error}") from error


class BatchedBackend:
    """Backend whose requests are answered by batches of its provider.

    `journal` is set before the first call. An error that concerns a whole batch is StopPlaying; the
    error of one request is that of the backend, and its next attempt is in another batch.
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
        self.traits = replace(traits_of(backend), by_batch=True, cached_prefix=None)
        self.journal: BatchJournal
        self._name, self._backend, self._endpoint = name, backend, endpoint
        self._limits, self._notify = limits, notify
        self._in_flight: set[str] = set()
        self._queue: dict[str, WireRequest] = {}
        """Requests of the next batch, by key."""
        self._name_of_next, self._due = "", 0.0
        self._tasks: dict[str, asyncio.Task[Responses | None]] = {}
        """Tasks that wait for batches, by the name of the batch."""

    async def complete(self, request: Request) -> Completion:
        # A mark of a prefix costs more, and no request comes in time to read it.
        request = replace(request, repeated=0)
        # The digest of the request, numbered among equal ones in flight.
        digest = key_of(self._name, request)[:48]
        key = next(key for n in count() if (key := f"{digest}-{n}") not in self._in_flight)
        self._in_flight.add(key)
        failure: Exception | None = None

        async def send(wire: WireRequest) -> WireResponse:
            nonlocal failure
            try:
                return await self._answer(key, wire)
            except Exception as error:  # The backend takes it for one of its connection.
                failure = error
                raise

        token = current_sender.set(send)
        try:
            completion = await self._backend.complete(request)
        except BackendError:
            if failure is not None:
                raise failure from None
            raise
        finally:
            current_sender.reset(token)
            self._in_flight.discard(key)
        cost = completion.cost
        return replace(completion, cost=None if cost is None else PRICE_SHARE * cost)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._endpoint.close()
        await self._backend.close()

    async def _answer(self, key: str, wire: WireRequest) -> WireResponse:
        """Return the response of the batch that a request is in, or else of the next one."""
        responses = None
        if batch := self.journal.batch_of.get(key):
            responses = await self._shared(batch.name, partial(self._pick_up, batch, wire))
            # The next attempt is in another batch, which then outweighs this one in the file, too.
            self.journal.batch_of.pop(key, None)
        if responses is None:
            name, queue = self._enqueue(key, wire)
            responses = await self._shared(name, partial(self._submit, name, queue))
            self.journal.batch_of.pop(key, None)
        # Taken out, so that a run does not hold all its answers in memory.
        return responses.pop(key, UNANSWERED) if responses else UNANSWERED

    async def _shared(
        self, name: str, follow: Callable[[], Coroutine[None, None, Responses | None]]
    ) -> Responses | None:
        """Return the responses of a batch; one task follows it, for all of its requests."""
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(follow())
        return await asyncio.shield(self._tasks[name])

    def _enqueue(self, key: str, wire: WireRequest) -> tuple[str, dict[str, WireRequest]]:
        """Put a request into the next batch; return its name and its requests."""
        is_full = len(self._queue) == MOST_REQUESTS
        if not self._queue or is_full or next(iter(self._queue.values())).url != wire.url:
            self._queue, self._name_of_next = {}, secrets.token_hex(8)
        self._queue[key] = wire
        self._due = time.monotonic() + self._limits.batch_seconds
        return self._name_of_next, self._queue

    async def _submit(self, name: str, requests: dict[str, WireRequest]) -> Responses:
        """Submit a batch once, when no request has come for a moment, and wait for it.

        Raises StopPlaying if it is refused.
        """
        while self._queue is requests and (left := self._due - time.monotonic()) > 0:
            await asyncio.sleep(left)
        if self._queue is requests:
            self._queue = {}
        like, attempts = next(iter(requests.values())), count()
        batch = StoredBatch(name, time.time(), list(requests))
        self.journal.store(batch)

        async def submit() -> str:
            # The answer to the submission before may have been lost.
            found = await self._endpoint.find(batch, like) if next(attempts) else None
            return found or await self._endpoint.submit(name, requests)

        batch.id = await self._persist(submit)
        self.journal.store(batch)
        number = pluralize(len(requests), "request")
        self._notify(f"{self._name}: batch {batch.id} with {number} is submitted")
        return await self._wait(batch.id, like)

    async def _pick_up(self, batch: StoredBatch, like: WireRequest) -> Responses | None:
        """Wait for a batch of an earlier session; None if it was never submitted, or refused."""
        batch.id = batch.id or await self._persist(partial(self._endpoint.find, batch, like))
        if batch.id is not None:
            self.journal.store(batch)
            self._notify(f"{self._name}: batch {batch.id} of an earlier session is picked up")
            with suppress(BatchRefused):
                return await self._wait(batch.id, like)
        return None

    async def _wait(self, batch: str, like: WireRequest) -> Responses:
        """Return the responses of a batch once it is over. Raises BatchRefused."""
        seconds = self._limits.batch_seconds
        while (
            responses := await self._persist(partial(self._endpoint.results, batch, like))
        ) is None:
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, LONGEST_WAIT)
        return responses

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
