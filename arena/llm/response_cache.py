"""Cache of completions on disk, so that equal requests are paid for once."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from arena.core.errors import ArenaError
from arena.llm.backend import Call, Completion, Layer, Request
from arena.llm.ledger import Tally

VERSION = 2
"""Version of the key; raise it when Request or Completion change."""
PATIENCE = 1.0
"""Seconds to wait for another process that writes; they block the event loop."""
OPENING_TRIES = 50

_COMPLETIONS = TypeAdapter(Completion)


class ResponseCache:
    """An SQLite file from the digest of (SPEC, request) to the completion, for several processes.

    It holds completions and digests: no prompt, no SPEC, no API key. A request with a temperature
    above 0 and without a seed gets the completion of the first such request. So do not use a cache
    to draw several completions of one request, or where weights change under the same name without
    a policy version.

    If the file fails during the run, `notify` gets one line and the run goes on without the cache.
    """

    def __init__(self, path: Path, notify: Callable[[str], None]) -> None:
        """Open or create the file. Raises ArenaError if that fails."""
        self._path = path
        self._notify = notify
        self._is_sound = True
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = _opened(path)
        except (sqlite3.Error, OSError) as error:
            raise ArenaError(
                f"response cache {path}: {error}; if it is not a cache of arena, name another "
                "file, otherwise delete it"
            ) from error

    def get(self, spec: str, request: Request) -> Completion | None:
        """Return the stored completion, marked `cached`, or None."""
        if not self._is_sound:
            return None
        select = "SELECT completion FROM completions WHERE key = ?"
        try:
            row = self._database.execute(select, (key_of(spec, request),)).fetchone()
        except sqlite3.Error as error:
            self._give_up(error)
            return None
        try:
            return replace(_COMPLETIONS.validate_json(row[0]), cached=True) if row else None
        except ValidationError:  # The new answer will take its place.
            return None

    def put(self, spec: str, request: Request, completion: Completion) -> None:
        """Store a completion; the latest one for a request stays."""
        if not self._is_sound:
            return
        text = json.dumps(asdict(completion), separators=(",", ":"))
        try:
            with self._database:
                self._database.execute(
                    "INSERT OR REPLACE INTO completions (key, completion) VALUES (?, ?)",
                    (key_of(spec, request), text),
                )
        except sqlite3.Error as error:
            self._give_up(error)

    def close(self) -> None:
        self._database.close()

    def _give_up(self, error: sqlite3.Error) -> None:
        self._is_sound = False
        self._notify(f"response cache {self._path}: {error}; going on without it")


@dataclass(eq=False, slots=True)
class Cached:
    """Layer that answers calls from a cache, and stores the answers to the others."""

    inner: Layer
    spec: str
    cache: ResponseCache
    tally: Tally

    async def complete(self, call: Call) -> Completion:
        if kept := self.cache.get(self.spec, call.request):
            self.tally.cached += 1
            return kept
        completion = await self.inner.complete(call)
        self.cache.put(self.spec, call.request, completion)
        return completion


def key_of(spec: str, request: Request) -> str:
    """Return the SHA-256 of the canonical JSON of the SPEC and the request."""
    # The whole request: each field may change the answer.
    whole = [VERSION, spec, asdict(request)]
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # Replies may hold lone surrogates, which plain UTF-8 refuses.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _opened(path: Path) -> sqlite3.Connection:
    maps, left = True, OPENING_TRIES
    while True:
        database = sqlite3.connect(path, timeout=PATIENCE)
        try:
            _prepare(database, maps)
            return database
        except BaseException as error:
            database.close()
            left -= 1
            if maps and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR:
                maps = False
            # SQLite does not wait for its turn when several processes turn WAL on at once.
            elif "locked" not in str(error) or not left:
                raise
            time.sleep(0.02)


def _prepare(database: sqlite3.Connection, maps: bool) -> None:
    """Set up the file; without `maps`, for a file system that cannot map files into memory."""
    if maps:
        # Readers and one writer do not block each other, so several processes can share the file.
        database.execute("PRAGMA journal_mode = WAL")
    else:
        # Out of the mode WAL, which needs maps unless one process has the file for itself.
        for mode in ("locking_mode = EXCLUSIVE", "journal_mode = DELETE", "locking_mode = NORMAL"):
            database.execute(f"PRAGMA {mode}")
    # A power failure may lose the last entries but not damage the file; that is enough for a cache.
    database.execute("PRAGMA synchronous = NORMAL")
    with database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS completions "
            "(key TEXT PRIMARY KEY, completion TEXT NOT NULL)"
        )
    # Fails now, not in the middle of a run, for an SQLite file with another table of that name.
    database.execute("SELECT key, completion FROM completions LIMIT 0")
