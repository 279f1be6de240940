"""The SQLite file of a results file: opening, locking and counting it, translating its errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from arena.core.errors import ArenaError
from arena.core.text import printable
from arena.core.version import __version__
from arena.episodes.files import is_written
from arena.evaluation.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES, BadRow

LOCK_TIMEOUT = 10.0
"""Seconds to wait for another process that has locked the database."""


def lock(path: Path) -> FileLock:
    """Return the lock of a file. The path is resolved, so a link to the file has the same lock."""
    return FileLock(f"{path.resolve()}.lock", timeout=0)


def is_locked(path: Path) -> bool:
    """Return whether a run writes to the file now. The lock itself is not taken."""
    lock_file = Path(lock(path).lock_file)
    # Systems without such locks do not tell; there the file counts as not written.
    return lock_file.is_file() and bool(is_written(lock_file))


def log_of(path: Path) -> Path:
    """Return the path of the write-ahead log: data that is written but not yet in the file."""
    return Path(f"{path.resolve()}-wal")


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a database. `mode` is that of SQLite's URI: without "c" no file is created."""
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    database = sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT, isolation_level=None)
    database.execute("PRAGMA foreign_keys = ON")
    # For untrusted files: the schema must not call functions, and damaged pages raise at once.
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    return database


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a database for reading, also in a read-only folder."""
    database = connect(path, "ro")
    try:
        database.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError as error:
        database.close()
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise
        if log_of(path).exists():
            raise ArenaError(
                f"cannot read {path}: its folder is read-only and its last run was killed; copy "
                "it, with its -wal file, into a folder that you may write to"
            ) from error
        # With a write-ahead log, even a reader creates files beside the database, unless the
        # database is declared immutable.
        return connect(path, "ro&immutable=1")
    except BaseException:
        database.close()
        raise
    return database


def start_log(database: sqlite3.Connection, resources: ExitStack) -> None:
    """Turn on the write-ahead log: readers and the writer then do not wait for each other."""
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")  # A committed game survives a crash.
    resources.callback(_end_log, database)


def _end_log(database: sqlite3.Connection) -> None:
    """Merge the log, so that one plain file remains that can be copied.

    This fails without harm while another process reads, or on a full disk: the log then remains.
    """
    database.execute("PRAGMA busy_timeout = 0")
    with suppress(sqlite3.OperationalError):
        database.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def transaction(
    database: sqlite3.Connection, kind: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE"
) -> Iterator[None]:
    """Commit all statements of the block, or none on an error. DEFERRED is for reading."""
    database.execute(f"BEGIN {kind}")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def pragma(database: sqlite3.Connection, name: str) -> int:
    """Return the number that SQLite's PRAGMA of this name gives."""
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def is_empty(database: sqlite3.Connection) -> bool:
    """Check whether the database has no content, e.g. because its creation was killed."""
    try:
        return pragma(database, "page_count") == 0
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            return False
        raise


def check_exists(path: Path) -> None:
    """Raise ArenaError unless `path` is a file that can be read.

    The file is not opened: closing it again would drop the POSIX locks of this process.
    """
    try:
        if not path.is_file():
            path.stat()
            raise ArenaError(f"{path} is not a file; name a results file")
    except OSError as error:
        raise ArenaError(f"cannot read {path}: {error.strerror}; name a results file") from error
    if not os.access(path, os.R_OK):
        raise ArenaError(f"cannot read {path}: permission denied")


def check_kind(path: Path, database: sqlite3.Connection) -> None:
    """Raise ArenaError unless it is a results file of this version."""
    if is_empty(database):
        raise ArenaError(f"{path} is empty: no run has started in it; delete it and start again")
    application, version = pragma(database, "application_id"), pragma(database, "user_version")
    if application != APPLICATION_ID:
        raise ArenaError(
            f"{path} is an SQLite file of another application; name a results file of arena"
        )
    if version != SCHEMA_VERSION:
        raise ArenaError(
            f"{path}: written with results schema {version}; this arena ({__version__}) reads "
            f"{SCHEMA_VERSION}; use the version of arena that wrote it"
        )
    _check_length(path, database)
    _check_tables(path, database)


def _check_length(path: Path, database: sqlite3.Connection) -> None:
    """Raise ArenaError for a truncated file; SQLite would read the missing part as zeros."""
    pages, size = pragma(database, "page_count"), pragma(database, "page_size")
    # A killed run may leave a part of a page; then the log contains the complete page.
    if path.stat().st_size < pages * size and not log_of(path).exists():
        raise damaged(path, "its end is cut off")


def _check_tables(path: Path, database: sqlite3.Connection) -> None:
    """Raise ArenaError for triggers, and for views or virtual tables with our tables' names.

    These would run code of the file's author.
    """
    select = "SELECT lower(name), type, sql FROM sqlite_master WHERE sql IS NOT NULL"
    for name, kind, sql in database.execute(select):
        is_ours = name in TABLES
        if kind == "trigger" or (is_ours and not (kind == "table" and sql[:13] == "CREATE TABLE ")):
            raise ArenaError(f"{path} holds more than tables; it is not safe to read")


@contextmanager
def translated_errors(path: Path, doing: Literal["read", "write"]) -> Iterator[None]:
    """Turn each error of the file into an ArenaError that names the path and the remedy."""
    try:
        yield
    except Timeout as error:
        raise ArenaError(
            f"another run writes to {path}; wait for it or choose another --out"
        ) from error
    except OSError as error:
        raise ArenaError(f"cannot {doing} {path}: {error.strerror or error}") from error
    except BadRow as error:
        raise ArenaError(f"{path}: {error}") from error
    except sqlite3.Error as error:
        raise _translated(path, doing, error) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes the damaged schema.
        raise damaged(path, "its table definitions are not text") from error


def _translated(path: Path, doing: Literal["read", "write"], error: sqlite3.Error) -> ArenaError:
    # The message may quote the file, and it is shown in terminals.
    message = printable(str(error))
    # SQLITE_ERROR means a missing table or column. An error about text that is not UTF-8 has no
    # code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    match sqlite3.SQLITE_MISUSE if isinstance(error, sqlite3.ProgrammingError) else code:
        case sqlite3.SQLITE_NOTADB:
            return ArenaError(f"{path} is not a results file: {message}; name a results file")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR:
            return damaged(path, message)
        case _ if doing == "write":
            return ArenaError(f"cannot write {path}: {message}; finished games are kept")
        case _:
            return ArenaError(f"cannot read {path}: {message}")


def damaged(path: Path, fault: str) -> ArenaError:
    return ArenaError(f"{path} is damaged: {printable(fault)}; use a copy of it, or start again")


MAX_PLAYERS = 100
"""Players that are named."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What a results file holds so far."""

    finished: int
    planned: int
    looks: int
    """Planned sizes at which results were shown."""
    players: tuple[str, ...]
    """In the order in which they were added."""


def read_progress(database: sqlite3.Connection) -> RunProgress:
    """Return the counts of an open results file. Raises sqlite3.Error for a damaged one."""
    specs = database.execute("SELECT spec FROM players ORDER BY id LIMIT ?", (MAX_PLAYERS,))
    finished, planned, looks = (
        int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in ("games", "schedule", "looks")
    )
    players = tuple(printable(str(spec)) for (spec,) in specs)
    return RunProgress(finished, planned, looks, players)
