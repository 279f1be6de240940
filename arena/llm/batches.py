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
WITHOUT_HASTE = {"call_timeout": 30 * 86_400.0, "breaker_failures": 10**9}
"""Limits of calls that batches answer, within a day: a request that a batch does not answer says
nothing about the provider."""
MOST_REQUESTS = 2000
"""Requests of a batch at most. Providers take more of them, but not more than about 200 MB."""
LONGEST_WAIT = 30.0
"""Seconds between two looks at a batch, at most."""


@dataclass(frozen=True, slots=True)
class WireAddress:
    """Address and key of calls as they would go over the wire: what those of one batch share."""

    url: str
    headers: tuple[tuple[str, str], ...]
    """Headers of a call that its batch needs too."""


WireResponse = tuple[int, bytes]
"""Status and body of the response to a call, as a batch states it."""
Responses = dict[str, WireResponse]
"""Responses of a batch, by the key of the request."""
UNANSWERED = (503, b'{"error": {"message": "the batch is over without an answer"}}')
Sender = Callable[[WireAddress, bytes], Awaitable[WireResponse]]
current_sender: ContextVar[Sender | None] = ContextVar("current_sender", default=None)
"""Answers the HTTP request of the current call, given by its body, in place of a connection."""


@dataclass(slots=True)
class StoredBatch:
    """A batch in the journal, or one that waits for further requests."""

    name: str
    keys: list[str]
    """Keys of its requests."""
    since: float = 0.0
    """Time of its submission, in seconds since 1970."""
    id: str | None = None
    """Identifier at its provider; None until the submission is answered."""


class BatchRefused(StopPlaying):
    """The provider has refused a batch as a whole."""


class BatchEndpoint(Protocol):
    """Batches of the calls to one address. Each method raises BackendError."""

    async def submit(self, name: str, bodies: Mapping[str, bytes]) -> str:
        """Submit requests by their keys; return the provider's identifier of the batch."""

    async def find(self, batch: StoredBatch) -> str | None:
        """Return the identifier of a batch whose submission was cut off; None if there is none."""

    async def results(self, batch: str) -> Responses | None:
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
        endpoint_at: Callable[[WireAddress], BatchEndpoint],
        limits: Limits,
        notify: Callable[[str], None],
    ) -> None:
        self.model = backend.model
        self.context_length = backend.context_length
        # Hours lie between two requests of a game: no cache of prompts holds the first one.
        self.traits = replace(traits_of(backend), by_batch=True, cached_prefix=None)
        self.journal: BatchJournal
        self._name, self._backend, self._limits, self._notify = name, backend, limits, notify
        self._endpoint_at = endpoint_at
        self._endpoints: dict[WireAddress, BatchEndpoint] = {}
        self._in_flight: set[str] = set()
        self._next: dict[WireAddress, StoredBatch] = {}
        """Batches that wait for further requests."""
        self._bodies: dict[tuple[str, str], bytes] = {}
        """Bodies of their requests, by batch and key."""
        self._tasks: dict[str, asyncio.Task[Responses]] = {}
        """Tasks that wait for batches, by the name of the batch."""

    async def complete(self, request: Request) -> Completion:
        # A mark of a prefix costs more, and no request comes in time to read it.
        request = replace(request, repeated=0)
        # The digest of the request, numbered among equal ones in flight.
        digest = key_of(self._name, request)[:48]
        key = next(key for n in count() if (key := f"{digest}-{n}") not in self._in_flight)
        self._in_flight.add(key)
        failures: list[Exception] = []

        async def send(address: WireAddress, body: bytes) -> WireResponse:
            try:
                return await self._answer(key, address, body)
            except Exception as error:  # The backend takes it for one of its connection.
                failures.append(error)
                raise

        token = current_sender.set(send)
        try:
            completion = await self._backend.complete(request)
        except BackendError as error:
            raise (failures or [error])[0] from None
        finally:
            current_sender.reset(token)
            self._in_flight.discard(key)
        return replace(completion, cost=completion.cost and PRICE_SHARE * completion.cost)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for endpoint in self._endpoints.values():
            await endpoint.close()
        await self._backend.close()

    async def _answer(self, key: str, address: WireAddress, body: bytes) -> WireResponse:
        """Return the response of the batch that a request is in, or else of the next one."""
        if address not in self._endpoints:
            self._endpoints[address] = self._endpoint_at(address)
        response, endpoint = None, self._endpoints[address]
        if batch := self.journal.batch_of.get(key):
            with suppress(BatchRefused):
                response = await self._response(key, batch, partial(self._follow, batch, endpoint))
        if response is None:
            batch = self._enqueue(key, address, body)
            response = await self._response(key, batch, partial(self._submit, batch, address))
        # The next attempt is in another batch, which then outweighs this one in the file, too.
        self.journal.batch_of.pop(key, None)
        return response or UNANSWERED

    async def _response(
        self, key: str, batch: StoredBatch, follow: Callable[[], Coroutine[None, None, Responses]]
    ) -> WireResponse | None:
        """Return the response of a batch to a request; one task follows it, for all of them."""
        if batch.name not in self._tasks:
            self._tasks[batch.name] = asyncio.create_task(follow())
        responses = await asyncio.shield(self._tasks[batch.name])
        # Taken out, so that a run does not hold all its answers in memory.
        return responses.pop(key, None)

    def _enqueue(self, key: str, address: WireAddress, body: bytes) -> StoredBatch:
        """Put a request into the next batch to an address."""
        batch = self._next.get(address)
        if batch is None or len(batch.keys) == MOST_REQUESTS:
            batch = self._next[address] = StoredBatch(secrets.token_hex(8), [])
        if (batch.name, key) not in self._bodies:  # An equal call before may have been cancelled.
            batch.keys.append(key)
        self._bodies[batch.name, key] = body
        return batch

    async def _submit(self, batch: StoredBatch, address: WireAddress) -> Responses:
        """Submit a batch once, when no request has come for a moment, and wait for it."""
        number = 0
        while number < len(batch.keys):
            number = len(batch.keys)
            await asyncio.sleep(self._limits.batch_seconds)
        if self._next.get(address) is batch:  # A full one has been replaced.
            del self._next[address]
        bodies = {key: self._bodies.pop((batch.name, key)) for key in batch.keys}
        batch.since = time.time()
        self.journal.store(batch)
        return await self._follow(batch, self._endpoints[address], bodies)

    async def _follow(
        self, batch: StoredBatch, endpoint: BatchEndpoint, bodies: Mapping[str, bytes] | None = None
    ) -> Responses:
        """Return the responses of a batch once it is over. Raises BatchRefused.

        Without bodies it is one of an earlier session; if that never arrived, nothing is returned.
        """
        attempts = count(bodies is None)

        async def identify() -> str | None:
            # The answer to the submission before may have been lost.
            found = await endpoint.find(batch) if next(attempts) else None
            return found or (await endpoint.submit(batch.name, bodies) if bodies else None)

        batch.id = batch.id or await self._persist(identify)
        if batch.id is None:
            return {}
        self.journal.store(batch)
        requests = f"with {pluralize(len(batch.keys), 'request')} is submitted"
        what = requests if bodies else "of an earlier session is picked up"
        self._notify(f"{self._name}: batch {batch.id} {what}")
        seconds, look = self._limits.batch_seconds, partial(endpoint.results, batch.id)
        while (responses := await self._persist(look)) is None:
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
