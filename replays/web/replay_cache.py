"""Cache of analysed replays: each is read and played once, and the latest few are kept."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from arena.episodes.record import Branch
from arena.episodes.replay import read_replay
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.web.exchange import served_name
from replays.web.http_errors import HttpError
from replays.web.replay_directory import FileVersion, ReplayDirectory, ServedFile

MAX_BYTES = 200 * 2**20
"""Limit for the sum of all cached files, and for one file."""
MAX_REPLAYS = 4


@dataclass(slots=True)
class OpenReplay:
    """A replay as it was when it was read."""

    version: FileVersion
    analysis: ReplayAnalysis
    branches: tuple[Branch, ...]
    seats: int
    lock: Lock = field(default_factory=Lock)
    """Protects the caches of the analysis. Comments, summaries and values of moves do not need it:
    they take long, and have locks of their own, so that other requests do not wait for them."""


class ReplayCache:
    """Thread-safe cache with least-recently-used eviction."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_replays: int = MAX_REPLAYS) -> None:
        self._max_bytes, self._max_replays = max_bytes, max_replays
        self._replays: OrderedDict[Path, OpenReplay] = OrderedDict()
        self._lock = Lock()
        self._opening: WeakValueDictionary[Path, Lock] = WeakValueDictionary()

    def get(self, file: ServedFile) -> OpenReplay:
        """Return the current state of the replay.

        Raises:
            HttpError: It cannot be opened; the message contains the served name of the file.
        """
        with self._lock:
            # One lock per file. The dictionary is weak: a lock that no thread holds disappears.
            opening = self._opening.setdefault(file.path, Lock())
        # The page sends several requests at once: the first reads the file, the others wait.
        with opening:
            replay = self._find(file)
            if replay is None:
                self._evict_for(file)
                replay = open_replay(file, self._max_bytes)
                with self._lock:
                    self._replays[file.path] = replay
            return replay

    def _find(self, file: ServedFile) -> OpenReplay | None:
        with self._lock:
            replay = self._replays.get(file.path)
            if replay is None or replay.version != file.version:
                return None
            self._replays.move_to_end(file.path)
            return replay

    def _evict_for(self, file: ServedFile) -> None:
        """Remove replays until there is room for one more."""
        with self._lock:
            self._replays.pop(file.path, None)  # An older version of the file.
            sizes = [replay.version.bytes for replay in self._replays.values()]
            total, room = sum(sizes), self._max_bytes - file.version.bytes
            while self._replays and (len(self._replays) >= self._max_replays or total > room):
                _, oldest = self._replays.popitem(last=False)
                total -= oldest.version.bytes


def open_replay(file: ServedFile, max_bytes: int = MAX_BYTES) -> OpenReplay:
    """Read a replay and play it.

    Raises:
        HttpError: Status 422; the file is too large, not a replay, or cannot be played.
    """
    if file.version.bytes > max_bytes:
        raise HttpError(
            422,
            f"{file.name} is too large: {file.version.bytes / 2**20:.0f} MiB; the limit is "
            f"{max_bytes / 2**20:.0f} MiB",
        )
    with served_name(file):
        replay = read_replay(file.path)
        # Errors of moves contain the served name, not the path on this machine.
        replay.path, header = Path(file.name), replay.header
        analysis = ReplayAnalysis(replay)
        return OpenReplay(file.version, analysis, header.branches, len(header.players))


def find_parents(directory: ReplayDirectory, branches: Sequence[Branch]) -> list[str | None]:
    """Return the path of each branch's parent in the served folder; None if it is absent.

    The parent has the recorded name and the recorded SHA-256 digest.
    """
    files = directory.files() if branches else []

    def is_parent(file: ServedFile, branch: Branch) -> bool:
        # The name is compared first, because computing a digest reads the whole file.
        has_name = file.name.rpartition("/")[2] == branch.parent
        return has_name and _sha256(file) == branch.parent_sha256

    return [
        next((file.name for file in files if is_parent(file, branch)), None) for branch in branches
    ]


@lru_cache(maxsize=1000)
def _sha256(file: ServedFile) -> str:
    """Return the digest of the file; empty for a file that the server would not open."""
    if file.version.bytes > MAX_BYTES:
        return ""
    try:
        with file.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""
