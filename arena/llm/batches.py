"""Batches of a provider: what goes over the wire, the endpoint, and the journal of a run."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Protocol

from arena.core.errors import StopPlaying
from arena.llm.backend import Backend, Completion, Price, Request
from arena.llm.response_cache import ResponseCache

BATCHES = "batches.sqlite"
"""Name of the journal of batches in the folder of a run."""
PRICE_SHARE = 0.5
"""Share of the usual price that a request in a batch costs; other models are not batched."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """HTTP request of one call, as it would go to the provider."""

    url: str
    headers: Mapping[str, str]
    """With lower-case names."""
    body: bytes


@dataclass(frozen=True, slots=True)
class WireResponse:
    """HTTP response of one call, as a batch states it."""

    status: int
    body: bytes


Sender = Callable[[WireRequest], Awaitable[WireResponse]]

current_sender: ContextVar[Sender | None] = ContextVar("current_sender", default=None)
"""Answers the HTTP request of the current call in place of a connection."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """Progress of a batch at its provider."""

    is_over: bool
    answered: int
    fault: str = ""
    """The reason why the provider has refused the batch as a whole."""
    is_too_large: bool = False
    """A smaller batch would not be refused."""


class BatchEndpoint(Protocol):
    """Endpoint of a provider's batches. `like` has the address and the key of a batch.

    Each method raises BackendError.
    """

    most_requests: int
    """Requests of a batch, at most."""
    most_bytes: int
    """Bytes of the bodies of its requests together, at most."""

    async def submit(self, name: str, requests: Mapping[str, WireRequest]) -> str:
        """Submit requests by their keys; return the provider's identifier of the batch."""

    async def find(
        self, name: str, keys: Collection[str], since: float, like: WireRequest
    ) -> str | None:
        """Return the identifier of a batch whose submission was cut off; None if there is none.

        `since` is the time of the submission, in seconds since 1970.
        """

    async def state(self, batch: str, like: WireRequest) -> BatchState:
        """Return the progress of a batch."""

    async def results(self, batch: str, like: WireRequest) -> dict[str, WireResponse]:
        """Return the responses of a batch that is over, by key."""

    async def close(self) -> None:
        """Close all connections."""


def batch_endpoint_of(backend: Backend) -> BatchEndpoint | None:
    """Return the endpoint of the method `batch_endpoint` of a backend; None without one."""
    make: Callable[[], BatchEndpoint | None] = getattr(backend, "batch_endpoint", lambda: None)
    return make()


def batch_price(price: Price | None) -> Price | None:
    """Return the price of the same model in batches."""
    if price is None:
        return None
    cached = None if price.cached is None else PRICE_SHARE * price.cached
    return Price(PRICE_SHARE * price.input, PRICE_SHARE * price.output, cached)


class BatchJournal(ResponseCache):
    """The answers that the batches of a run have given, and the batches without their answers.

    An answer that it holds counts as cached in the ledger, but keeps its cost: the run has paid it.
    """

    def __init__(self, path: Path, notify: Callable[[str], None]) -> None:
        super().__init__(path, notify)
        with self._transaction() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS batches (name TEXT PRIMARY KEY, id TEXT, time REAL)"
            )
            database.execute(
                "CREATE TABLE IF NOT EXISTS requests (key TEXT PRIMARY KEY, batch TEXT)"
            )

    def get(self, spec: str, request: Request) -> Completion | None:
        kept = super().get(spec, request)
        return replace(kept, cached=False) if kept else None

    def begin(self, name: str, keys: Collection[str]) -> None:
        """Store a batch before it is submitted."""
        with self._transaction() as database:
            database.execute("INSERT INTO batches VALUES (?, NULL, ?)", (name, time.time()))
            rows = [(key, name) for key in keys]
            database.executemany("INSERT OR REPLACE INTO requests VALUES (?, ?)", rows)

    def submitted(self, name: str, batch: str) -> None:
        """Store the provider's identifier of a batch."""
        with self._transaction() as database:
            database.execute("UPDATE batches SET id = ? WHERE name = ?", (batch, name))

    def batch_of(self, key: str) -> str | None:
        """Return the name of the batch that a request is in."""
        select = "SELECT batch FROM requests WHERE key = ?"
        with self._transaction() as database:
            row = database.execute(select, (key,)).fetchone()
        return row[0] if row else None

    def batch(self, name: str) -> tuple[str | None, float, list[str]]:
        """Return the identifier of a batch, the time of its submission, and its keys."""
        select = "SELECT id, time FROM batches WHERE name = ?"
        with self._transaction() as database:
            batch, when = database.execute(select, (name,)).fetchone()
            keys = database.execute("SELECT key FROM requests WHERE batch = ?", (name,)).fetchall()
        return batch, when, [key for (key,) in keys]

    def forget(self, key: str) -> None:
        """Let the next request with this key be in another batch."""
        with self._transaction() as database:
            database.execute("DELETE FROM requests WHERE key = ?", (key,))

    def drop(self, name: str) -> None:
        """Forget a batch that was not submitted, or was refused as a whole."""
        with self._transaction() as database:
            database.execute("DELETE FROM requests WHERE batch = ?", (name,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the database for one transaction. Raises StopPlaying if it fails."""
        try:
            with self._database:
                yield self._database
        except sqlite3.Error as error:
            self._give_up(error)

    def _give_up(self, error: sqlite3.Error) -> NoReturn:
        # Without it answers would be paid for twice.
        raise StopPlaying(f"journal of batches {self._path}: {error}") from error
