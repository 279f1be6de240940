"""List of replays; only the beginning and the end of each file are read."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import IO

from pydantic import ValidationError

from arena.agents.names import PlayerNames, display_names
from arena.core.errors import ReplayError
from arena.core.text import shorten
from arena.episodes.record import Header, OutcomeLine
from arena.episodes.replay import NO_HEADER, read_header
from arena.plugins.catalog import game_title
from replays.analysis.documents import ListedReplayJson
from replays.web.replay_directory import ReplayDirectory, ServedFile

PUBLISH_INTERVAL = 0.4
"""Seconds between two versions of the list while a folder is read for the first time."""
HEAD_BYTES = 16 * 2**10
"""Nearly every header is shorter."""
MAX_HEADER_BYTES = 2**20
TAIL_BYTES = 16 * 2**10
"""Every outcome is shorter; a longer last line is the last move of a running game."""

EMPTY_ROW: ListedReplayJson = {
    "path": "",
    "game": "",
    "title": "",
    "variant": None,
    "players": [],
    "names": [],
    "created": "",
    "status": "unreadable",
    "reason": "",
    "winners": [],
    "is_draw": False,
    "returns": [],
    "turns": None,
    "decisions": None,
    "bytes": 0,
    "branch": None,
    "error": None,
}


ListedFile = tuple[ServedFile, ListedReplayJson | None]
"""A file as it was when it was read, with its row; None for a file that is not a replay."""


@dataclass(frozen=True, slots=True)
class FolderSnapshot:
    """What is known about the folder at one moment."""

    games: list[ListedReplayJson]
    """The most recently changed first."""
    others: list[ServedFile]
    unread: int = 0
    """Files that were found but not read yet."""


class Listing:
    """List that is cached between requests: only changed files are read again.

    The files are read by a thread of their own, so that a request gets what is known at once, and
    a folder of 50,000 games does not delay the page.
    """

    def __init__(self, directory: ReplayDirectory) -> None:
        self._directory = directory
        self._files: dict[str, ListedFile] = {}
        self._refreshing = Lock()
        self._starting = Lock()
        self._thread: Thread | None = None
        self._snapshot = FolderSnapshot([], [])
        self._seconds = 0.0
        """Duration of the last refresh."""
        self._refreshed = -math.inf
        """Time of its end, by the monotonic clock."""

    def read(self) -> FolderSnapshot:
        """Return the current list, when all files have been read."""
        with self._refreshing:
            self._refresh()
        return self._snapshot

    def current(self, patience: float = 0.25) -> FolderSnapshot:
        """Return what is known after at most `patience` seconds; the rest is read meanwhile.

        A folder that takes long to read is read less often: at most a fifth of the time.
        """
        if time.monotonic() - self._refreshed < (4 * self._seconds if self._seconds > 0.1 else 0):
            return self._snapshot
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self.read, daemon=True)
                self._thread.start()
            thread = self._thread
        # Once a list is known, a request does not wait for a refresh that takes long anyway.
        thread.join(0 if self._seconds > patience and self._snapshot.games else patience)
        return self._snapshot

    def _refresh(self) -> None:
        started = time.monotonic()
        found = self._directory.scan()
        requested = self._directory.single_file is not None
        files: dict[str, ListedFile] = {}
        published = started
        for number, file in enumerate(found.replays):
            known = self._files.get(file.name)
            if known is None or known[0] != file:
                known = file, read_row(file, requested)
            files[file.name] = known
            # The first list of a large folder grows while it is read.
            if not self._files and time.monotonic() - published > PUBLISH_INTERVAL:
                self._publish(files, found.others, len(found.replays) - number - 1)
                published = time.monotonic()
        self._files = files
        self._publish(files, found.others, 0)
        self._refreshed = time.monotonic()
        self._seconds = self._refreshed - started

    def _publish(self, files: dict[str, ListedFile], others: list[ServedFile], unread: int) -> None:
        games = [_with_status(row, file) for file, row in files.values() if row]
        single = self._directory.single_file
        # The page opens a single replay immediately, and then shows this error.
        if single and not games:
            games = [_unreadable(single, 0, "the file no longer exists")]
        self._snapshot = FolderSnapshot(games, others, unread)


def check_single_file(directory: ReplayDirectory) -> str | None:
    """Return the reason why the single file is not a replay.

    Returns None for a replay, and for a running game whose header is still being written.
    """
    for file in directory.scan().replays:
        row = read_row(file, requested=True)
        if row is None or row["error"] is None:
            return None
        return None if _is_header_incomplete(file) else row["error"]
    return "this is not a regular file that can be read"


def _is_header_incomplete(file: ServedFile) -> bool:
    with suppress(OSError), file.path.open("rb") as stream:
        return file.is_running() and not _read_head(stream).endswith(b"\n")
    return False


def _with_status(row: ListedReplayJson, file: ServedFile) -> ListedReplayJson:
    """Return the row with its current status.

    The status is not cached: a file does not change when its game is interrupted.
    """
    running = row["status"] == "unfinished" and file.is_running()
    return {**row, "status": "running"} if running else row


def read_row(file: ServedFile, requested: bool = False) -> ListedReplayJson | None:
    """Return the row of a file.

    Returns None for JSON lines that are not a replay, unless this file was requested explicitly.
    """
    try:
        with file.path.open("rb") as stream:
            head = _read_head(stream)
            # The size from the directory scan: bytes that were appended since are read next time.
            stream.seek(max(0, file.version.bytes - TAIL_BYTES))
            tail = stream.read(TAIL_BYTES)
        header = _parse_header(head)
        if header is not None:
            return _listed(file, header, _parse_outcome(tail))
        return _unreadable(file.name, file.version.bytes, NO_HEADER) if requested else None
    except OSError as error:
        return _unreadable(file.name, file.version.bytes, f"cannot read it: {error.strerror}")
    except ReplayError as error:
        return _unreadable(file.name, file.version.bytes, str(error))


def _read_head(stream: IO[bytes]) -> bytes:
    """Return the first line, up to the maximal length of a header."""
    head = stream.readline(HEAD_BYTES)
    if len(head) == HEAD_BYTES and not head.endswith(b"\n"):
        head += stream.readline(MAX_HEADER_BYTES)
    return head


def _parse_header(line: bytes) -> Header | None:
    """Return the header; None for other JSON.

    Raises:
        ReplayError: The line is not JSON, not complete, or a header of another version.
    """
    if not line:
        raise ReplayError("the file is empty, not a replay")
    if not line.endswith(b"\n"):
        raise ReplayError("line 1 is cut off, or too long for the header of a replay")
    return read_header(line)


def _parse_outcome(tail: bytes) -> OutcomeLine | None:
    """Return the outcome if the last line is complete and an outcome."""
    # An incomplete last line means that the game is running or was interrupted.
    last = tail.rstrip().rpartition(b"\n")[2]
    if b'"outcome"' not in last:
        return None
    try:
        return OutcomeLine.model_validate_json(last)
    except ValidationError:
        return None


def _listed(file: ServedFile, header: Header, outcome: OutcomeLine | None) -> ListedReplayJson:
    variant, names = header.options.get("variant"), display_names(header.players)
    row: ListedReplayJson = {
        **EMPTY_ROW,
        "path": file.name,
        "game": header.game,
        "title": game_title(header.game),
        "variant": variant if isinstance(variant, str) else None,
        "players": list(header.players),
        "names": names,
        "created": header.created.isoformat(),
        "status": "unfinished",
        "bytes": file.version.bytes,
    }
    if header.branches:  # The last branch, without its seed.
        row["branch"] = {"parent": header.branches[-1].parent, "ply": header.branches[-1].ply}
    if outcome:
        row["status"], row["reason"] = outcome.status, PlayerNames(names).text(outcome.reason)
        seats = range(len(outcome.returns))
        row["winners"] = list(filter(outcome.outcome.is_winner, seats))
        # Players of one team have no rivals, and a single player has none either.
        rivals = set(outcome.outcome.teams or seats)
        ended = outcome.status == "terminated"
        row["is_draw"] = ended and len(rivals) > 1 and not row["winners"]
        row["returns"], row["turns"] = list(outcome.returns), outcome.turns
        row["decisions"] = outcome.decisions
    return row


def _unreadable(name: str, size: int, error: str) -> ListedReplayJson:
    return {**EMPTY_ROW, "path": name, "bytes": size, "error": shorten(error)}
