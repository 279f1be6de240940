"""The list of replays: of each file only both ends are read."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import IO

from pydantic import ValidationError

from arena.core.errors import ReplayError
from arena.core.text import shortened
from arena.episodes.record import Header, OutcomeLine
from arena.episodes.replay import NO_HEADER, read_header
from replays.analysis.documents import BranchJson, ListedJson, ListJson
from replays.web.replay_directory import ReplayFile, Root

MOST_ROWS = 20_000
HEAD_BYTES = 16 * 2**10
"""Holds nearly every header."""
LONGEST_HEADER = 2**20
TAIL_BYTES = 16 * 2**10
"""Holds every outcome; what is longer is the last move of a running game."""


class Listing:
    """The list, kept from one request to the next: only what has changed is read again."""

    def __init__(self, root: Root, most: int = MOST_ROWS) -> None:
        self._root = root
        self._most = most
        self._rows: dict[ReplayFile, ListedJson | None] = {}
        self._lock = Lock()

    def read(self) -> ListJson:
        """The list now, the replays that changed last first."""
        with self._lock:
            files = self._root.files()
            listed = files[: self._most]
            self._rows = {file: self._row(file) for file in listed}
            games = [_now(row, file) for file, row in self._rows.items() if row]
            if self._root.only and not games:  # The page opens it at once, and is told why not.
                games = [_unreadable(self._root.only, 0, "it is not there any more")]
        return {"root": self._root.title, "games": games, "more": len(files) - len(listed)}

    def _row(self, file: ReplayFile) -> ListedJson | None:
        if file in self._rows:
            return self._rows[file]
        return read_row(file, asked_for=self._root.only is not None)


def no_replay(root: Root) -> str | None:
    """Why the one file that is asked for is no replay; None also where it may become one."""
    for file in root.files():
        row = read_row(file, asked_for=True)
        if row is None or row["error"] is None:
            return None
        return None if _begins(file) else row["error"]
    return "this is no plain file that can be read"


def _begins(file: ReplayFile) -> bool:
    """Whether its header is still being written."""
    with suppress(OSError), file.path.open("rb") as stream:
        return file.is_running() and not _head(stream).endswith(b"\n")
    return False


def _now(row: ListedJson, file: ReplayFile) -> ListedJson:
    """What is unfinished may still be running; the file does not change when it no longer is."""
    running = row["status"] == "unfinished" and file.is_running()
    return {**row, "status": "running"} if running else row


def read_row(file: ReplayFile, asked_for: bool = False) -> ListedJson | None:
    """What the list says of a file; None for JSON lines of another kind that nobody asked for."""
    try:
        with file.path.open("rb") as stream:
            head = _head(stream)
            stream.seek(max(0, file.stamp.bytes - TAIL_BYTES))
            tail = stream.read(TAIL_BYTES)
        header = _header(head)
        if header is not None:
            return _listed(file, header, _outcome(tail))
        return _unreadable(file.name, file.stamp.bytes, NO_HEADER) if asked_for else None
    except OSError as error:
        return _unreadable(file.name, file.stamp.bytes, f"cannot read it: {error.strerror}")
    except ReplayError as error:
        return _unreadable(file.name, file.stamp.bytes, str(error))


def _head(stream: IO[bytes]) -> bytes:
    """The first line, as long as a header may be."""
    head = stream.readline(HEAD_BYTES)
    if len(head) == HEAD_BYTES and not head.endswith(b"\n"):
        head += stream.readline(LONGEST_HEADER)
    return head


def _header(line: bytes) -> Header | None:
    """None for JSON of another kind. Raises ReplayError for what is no header, or none of ours."""
    if not line:
        raise ReplayError("empty, no replay")
    if not line.endswith(b"\n"):
        raise ReplayError("line 1 is cut off, or too long for a replay's header")
    return read_header(line)


def _outcome(tail: bytes) -> OutcomeLine | None:
    """The last line, if it is whole and an outcome."""
    last = tail.removesuffix(b"\n").rpartition(b"\n")[2]
    if not tail.endswith(b"\n") or b'"outcome"' not in last:
        return None
    try:
        return OutcomeLine.model_validate_json(last)
    except ValidationError:
        return None


def _listed(file: ReplayFile, header: Header, outcome: OutcomeLine | None) -> ListedJson:
    variant = header.options.get("variant")
    return {
        "path": file.name,
        "game": header.game,
        "variant": variant if isinstance(variant, str) else None,
        "players": list(header.players),
        "created": header.created.isoformat(),
        "status": outcome.status if outcome else "unfinished",
        "reason": outcome.reason if outcome else "",
        "winner": outcome.winner if outcome else None,
        "returns": list(outcome.returns) if outcome else [],
        "turns": outcome.turns if outcome else None,
        "decisions": outcome.decisions if outcome else None,
        "bytes": file.stamp.bytes,
        "branch": _branch(header),
        "error": None,
    }


def _branch(header: Header) -> BranchJson | None:
    """Where it left its parent; the seeds are kept for who opens it."""
    if not header.branches:
        return None
    last = header.branches[-1]
    return {"parent": last.parent, "ply": last.ply}


def _unreadable(name: str, size: int, error: str) -> ListedJson:
    return {
        "path": name,
        "game": "",
        "variant": None,
        "players": [],
        "created": "",
        "status": "unreadable",
        "reason": "",
        "winner": None,
        "returns": [],
        "turns": None,
        "decisions": None,
        "bytes": size,
        "branch": None,
        "error": shortened(error),
    }
