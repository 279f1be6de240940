"""Answers kept on disk, so that the same request need not be paid for twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from arena.core.errors import ArenaError
from arena.llm.backend import Completion, Request

VERSION = 1
"""Of the key: whoever changes Request or Completion raises it."""
PATIENCE = 1.0
"""Seconds to wait for another process that is writing; the event loop stands still meanwhile."""
OPENING_TRIES = 50

_COMPLETIONS = TypeAdapter(Completion)


class ResponseCache:
    """An SQLite file from the digest of (SPEC, request) to the completion, for several processes.

    It holds answers and digests: no prompt, no SPEC, no key. A request that is drawn at random
    (temperature above 0) and names no seed gets the answer that the first such request got: do not
    use a cache where several answers to one request are wanted, or where weights change under the
    same name and no policy version is given.

    A file that fails while it is used costs one line through `say`; the run goes on without it.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        """Raises ArenaError if there cannot be a cache at `path`."""
        self._path = path
        self._say = say
        self._is_sound = True
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = _opened(path)
        except (sqlite3.Error, OSError) as error:
            raise ArenaError(
                f"response cache {path}: {error}; if it is no cache of arena, name another file, "
                "otherwise delete it"
            ) from error

    def get(self, spec: str, request: Request) -> Completion | None:
        """The kept completion, marked `cached`; None if there is none."""
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
        """Keep a completion; of two for one request the later one stays."""
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
        self._say(f"response cache {self._path}: {error}; going on without it")


def key_of(spec: str, request: Request) -> str:
    """SHA-256 of the canonical JSON of the SPEC and of the whole request."""
    whole = [VERSION, spec, asdict(request)]
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=PATIENCE)
    try:
        for left in reversed(range(OPENING_TRIES)):
            try:
                _prepare(database)
                break
            except sqlite3.OperationalError as error:
                # SQLite does not wait for its turn when several processes turn WAL on at once.
                if "locked" not in str(error) or not left:
                    raise
                time.sleep(0.02)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    with database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS completions "
            "(key TEXT PRIMARY KEY, completion TEXT NOT NULL)"
        )
    database.execute("SELECT key, completion FROM completions LIMIT 0")
