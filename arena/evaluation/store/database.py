"""The SQLite file under a results file: opening it, locking it, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from arena.core.errors import ArenaError
from arena.core.version import __version__
from arena.evaluation.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES, BadRow

PATIENCE = 10.0
"""Seconds to wait for another process that has the file locked."""


def lock(path: Path) -> FileLock:
    """The path is resolved, so that a link to the file means the same lock."""
    return FileLock(f"{path.resolve()}.lock", timeout=0)


def log_of(path: Path) -> Path:
    """Where SQLite keeps what was written and is not in the file yet."""
    return Path(f"{path.resolve()}-wal")


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """`mode` is the one of SQLite's URI, so that nothing is created by looking for it."""
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    database = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
    database.execute("PRAGMA foreign_keys = ON")
    # For files of strangers: their schema calls no functions, and bad pages are found at once.
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    return database


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Reading needs files beside this one if its log is on, unless it is said to be immutable."""
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
        return connect(path, "ro&immutable=1")
    except BaseException:
        database.close()
        raise
    return database


def begin_log(database: sqlite3.Connection, resources: ExitStack) -> None:
    """The write-ahead log, so that readers and the writer do not wait for each other."""
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")  # What is told to be written survives a crash.
    resources.callback(_end_log, database)


def _end_log(database: sqlite3.Connection) -> None:
    """Leave one plain file, which can be copied and be read from a read-only folder.

    While somebody reads, or on a full disk, the log stays where it is; that does no harm.
    """
    database.execute("PRAGMA busy_timeout = 0")
    with suppress(sqlite3.OperationalError):
        database.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def transaction(
    database: sqlite3.Connection, kind: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE"
) -> Iterator[None]:
    """All of it, or nothing. DEFERRED is for reading."""
    database.execute(f"BEGIN {kind}")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def is_empty(database: sqlite3.Connection) -> bool:
    """Whether nothing was ever written, or only a creation that was killed in the middle."""
    try:
        return bool(database.execute("PRAGMA page_count").fetchone()[0] == 0)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            return False
        raise


def check_exists(path: Path) -> None:
    """By its status alone: to open and close it would drop the locks that this process has."""
    try:
        if not path.is_file():
            path.stat()
            raise ArenaError(f"{path} is no file; name a results file")
    except OSError as error:
        raise ArenaError(f"cannot read {path}: {error.strerror}; name a results file") from error
    if not os.access(path, os.R_OK):
        raise ArenaError(f"cannot read {path}: permission denied")


def check_kind(path: Path, database: sqlite3.Connection) -> None:
    """That it is a results file, of this version."""
    if is_empty(database):
        raise ArenaError(f"{path} is empty: no run has begun in it; delete it and start anew")
    application, version = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise ArenaError(
            f"{path} is an SQLite file of something else than arena; name a results file"
        )
    if version != SCHEMA_VERSION:
        raise ArenaError(
            f"{path}: written with results schema {version}; this arena ({__version__}) reads "
            f"{SCHEMA_VERSION}"
        )
    _check_length(path, database)
    _check_tables(path, database)


def _check_length(path: Path, database: sqlite3.Connection) -> None:
    """SQLite takes what is missing of the last page for zeros."""
    pages, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    # A run that was killed may have left a part of a page; the log has the whole of it.
    if path.stat().st_size < pages * size and not log_of(path).exists():
        raise damaged(path, "its end is cut off")


def _check_tables(path: Path, database: sqlite3.Connection) -> None:
    """A view, a trigger or a virtual table in their place would run what a stranger wrote."""
    select = "SELECT lower(name), type, sql FROM sqlite_master WHERE sql IS NOT NULL"
    for name, kind, sql in database.execute(select):
        is_ours = name in TABLES
        if kind == "trigger" or (is_ours and not (kind == "table" and sql[:13] == "CREATE TABLE ")):
            raise ArenaError(f"{path} holds more than tables; it is not safe to read")


@contextmanager
def explained(path: Path, doing: Literal["read", "write"]) -> Iterator[None]:
    """Every error of the file becomes an ArenaError that says what to do."""
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
    except UnicodeDecodeError as error:  # Of SQLite's own message, which quotes a damaged schema.
        raise damaged(path, "its tables' definitions are no text") from error


def _translated(path: Path, doing: Literal["read", "write"], error: sqlite3.Error) -> ArenaError:
    told = _printable(str(error))
    # SQLITE_ERROR is what a missing table or column gives; text that is no UTF-8 has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    match sqlite3.SQLITE_MISUSE if isinstance(error, sqlite3.ProgrammingError) else code:
        case sqlite3.SQLITE_NOTADB:
            return ArenaError(f"{path} is no results file: {told}; name a results file")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR:
            return damaged(path, told)
        case _ if doing == "write":
            return ArenaError(f"cannot write {path}: {told}; what was finished is kept")
        case _:
            return ArenaError(f"cannot read {path}: {told}")


def damaged(path: Path, told: str) -> ArenaError:
    return ArenaError(f"{path} is damaged: {_printable(told)}; take a copy of it, or start anew")


def _printable(told: str) -> str:
    """SQLite may quote the file, and what it says is shown in terminals."""
    return "".join(c if c.isprintable() else " " for c in told)
