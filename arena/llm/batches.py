"""A backend whose requests are answered by batches, at half the price.

A backend makes its request as always; what would go over the wire is collected instead, and sent as
one batch when no further request comes: all games so advance by one decision per batch. The journal
of the run names the batch of each request, so that a run that was killed picks them up again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from arena.core.errors import BackendError, StopPlaying
from arena.core.text import duration_in_words, pluralize
from arena.llm.attempts import backoff
from arena.llm.backend import Backend, Completion, Request, traits_of
from arena.llm.response_cache import ResponseCache, key_of
from arena.llm.settings import Limits

T = TypeVar("T")
BATCHES = "batches.sqlite"
"""Name of the journal of batches in the folder of a run."""
PRICE_SHARE = 0.5
"""Share of the usual price that a request in a batch costs; other models are not batched."""
MOST_REQUESTS, MOST_BYTES = 50_000, 180 << 20
"""Requests of a batch, and bytes of their bodies together, at most."""
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
BatchTask = asyncio.Task[Responses | None]
"""Waits for a batch; None for one of an earlier session that was never submitted, or refused."""
UNANSWERED = WireResponse(503, b'{"error": {"message": "the batch is over without an answer"}}')
Sender = Callable[[WireRequest], Awaitable[WireResponse]]
current_sender: ContextVar[Sender | None] = ContextVar("current_sender", default=None)
"""Answers the HTTP request of the current call in place of a connection."""


class BatchRefused(BackendError):
    """The provider has refused a batch as a whole."""


class BatchEndpoint(Protocol):
    """Endpoint of a provider's batches. `like` has the address and the key of a batch.

    Each method raises BackendError.
    """

    async def submit(self, name: str, requests: Mapping[str, WireRequest]) -> str:
        """Submit requests by their keys; return the provider's identifier of the batch."""

    async def find(
        self, name: str, keys: Collection[str], since: float, like: WireRequest
    ) -> str | None:
        """Return the identifier of a batch whose submission, at `since`, was cut off, or None."""

    async def results(self, batch: str, like: WireRequest) -> Responses | None:
        """Return the responses of a batch; None if it is not over. Raises BatchRefused."""

    async def close(self) -> None:
        """Close all connections."""


class BatchJournal(ResponseCache):
    """The answers that the batches of a run have given, and the requests without an answer.

    An answer that it holds counts as cached in the ledger, but keeps its cost: the run has paid it.
    """

    def __init__(self, path: Path, notify: Callable[[str], None]) -> None:
        super().__init__(path, notify)
        self._rows(
            "CREATE TABLE IF NOT EXISTS requests "
            "(key TEXT PRIMARY KEY, batch TEXT, id TEXT, time REAL)"
        )

    def get(self, spec: str, request: Request) -> Completion | None:
        kept = super().get(spec, request)
        return replace(kept, cached=False) if kept else None

    def begin(self, name: str, keys: Collection[str]) -> None:
        """Store a batch before it is submitted."""
        insert = "INSERT OR REPLACE INTO requests SELECT value, ?, NULL, ? FROM json_each(?)"
        self._rows(insert, name, time.time(), json.dumps(list(keys)))

    def submitted(self, name: str, batch: str) -> None:
        """Store the provider's identifier of a batch."""
        self._rows("UPDATE requests SET id = ? WHERE batch = ?", batch, name)

    def batch_of(self, key: str) -> str | None:
        """Return the name of the batch that a request is in."""
        rows = self._rows("SELECT batch FROM requests WHERE key = ?", key)
        return rows[0][0] if rows else None

    def batch(self, name: str) -> tuple[str | None, float, list[str]]:
        """Return the identifier of a batch, the time of its submission, and its keys."""
        rows = self._rows("SELECT id, time, key FROM requests WHERE batch = ?", name)
        return rows[0][0], rows[0][1], [key for _, _, key in rows]

    def forget(self, name: str) -> None:
        """Let a request with this key, or all of the batch of this name, be in another batch."""
        self._rows("DELETE FROM requests WHERE ? IN (key, batch)", name)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        """Run one transaction. Raises StopPlaying if it fails."""
        try:
            with self._database:
                return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)

    def _give_up(self, error: sqlite3.Error) -> NoReturn:
        # Without it answers would be paid for twice.
        raise StopPlaying(f"journal of batches {self._path}: {error}") from error


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
        self._queue: dict[str, WireRequest] = {}
        """Requests of the next batch, by key."""
        self._bytes, self._due, self._name_of_next = 0, 0.0, ""
        self._tasks: dict[str, BatchTask] = {}
        """Tasks by the name of the batch."""

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
            self._kept.forget(key)
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

    @property
    def _kept(self) -> BatchJournal:
        assert self.journal is not None, "LLMService.keep_batches opens it"
        return self.journal

    async def _answer(self, key: str, wire: WireRequest) -> WireResponse:
        """Return the response of the batch that a request is in, or else of the next one."""
        responses: Responses | None = None
        while responses is None and (name := self._kept.batch_of(key)) is not None:
            if name not in self._tasks:
                self._tasks[name] = asyncio.ensure_future(self._follow(name, wire, {}))
            responses = await asyncio.shield(self._tasks[name])
        if responses is None:
            responses = await asyncio.shield(self._queued(key, wire))
        # Taken out, so that a run does not hold all its answers in memory.
        return responses.pop(key, UNANSWERED) if responses else UNANSWERED

    def _queued(self, key: str, wire: WireRequest) -> BatchTask:
        """Put a request into the next batch, which is submitted once none has come for a moment."""
        loop = asyncio.get_running_loop()
        self._bytes += len(wire.body)
        is_full = len(self._queue) == MOST_REQUESTS or self._bytes > MOST_BYTES
        if not self._queue or is_full or next(iter(self._queue.values())).url != wire.url:
            self._queue, self._bytes = {}, len(wire.body)
            self._name_of_next = name = secrets.token_hex(8)
            self._tasks[name] = loop.create_task(self._follow(name, wire, self._queue))
        self._queue[key] = wire
        self._due = loop.time() + self._limits.batch_seconds
        return self._tasks[self._name_of_next]

    async def _follow(
        self, name: str, like: WireRequest, requests: dict[str, WireRequest]
    ) -> Responses | None:
        """Submit a batch once and wait for it; without requests it is of an earlier session.

        Returns None if there is no such batch. Raises StopPlaying if a new one is refused.
        """
        is_new, refusal = bool(requests), ""
        if is_new:
            now = asyncio.get_running_loop().time
            while self._queue is requests and (left := self._due - now()) > 0:
                await asyncio.sleep(left)
            if self._queue is requests:
                self._queue = {}
            self._kept.begin(name, requests)
        batch, since, keys = self._kept.batch(name)
        tries = count(0 if is_new else 1)

        async def identify() -> str | None:
            # The answer to a submission may be lost, or its session was killed meanwhile.
            found = None
            if next(tries):
                found = await self._endpoint.find(name, keys, since, like)
            return found or (await self._endpoint.submit(name, requests) if is_new else None)

        batch = batch or await self._persist(identify)
        if batch is not None:
            self._kept.submitted(name, batch)
            number = pluralize(len(requests), "request")
            what = f"with {number} is submitted" if is_new else "of an earlier session is picked up"
            self._notify(f"{self._name}: batch {batch} {what}")
            try:
                return await self._wait(batch, like)
            except BatchRefused as error:
                refusal = f"{self._name}: batch {batch} was refused: {error}"
        self._kept.forget(name)
        if is_new:
            raise StopPlaying(refusal)
        return None

    async def _wait(self, batch: str, like: WireRequest) -> Responses:
        """Return the responses of a batch once it is over. Raises BatchRefused."""
        start, seconds = time.monotonic(), self._limits.batch_seconds
        look = partial(self._endpoint.results, batch, like)
        while (responses := await self._persist(look)) is None:
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, LONGEST_WAIT)
        taken = duration_in_words(time.monotonic() - start)
        self._notify(f"{self._name}: batch {batch} is over after {taken}")
        return responses

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it succeeds. Raises StopPlaying if it cannot, or not within the patience."""
        start, failures = time.monotonic(), 0
        while True:
            try:
                return await call()
            except BatchRefused:
                raise
            except BackendError as error:
                failures += 1
                is_late = time.monotonic() - start > self._limits.patience
                if is_late or not error.retryable:
                    raise StopPlaying(
                        f"{self._name}: {error}; batches that were submitted are not lost: "
                        "--resume picks them up"
                    ) from None
                await asyncio.sleep(backoff(self._limits, failures, error.retry_after))
