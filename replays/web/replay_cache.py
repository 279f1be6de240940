"""Cache of analysed replays: each is read and played once, and the latest few are kept."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from arena.episodes.replay import read_replay
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.web.exchange import served_name
from replays.web.http_errors import HttpError
from replays.web.replay_directory import FileVersion, ServedFile

MAX_BYTES = 200 * 2**20
"""Limit for the sum of all cached files, and for one file."""
MAX_REPLAYS = 4


@dataclass(slots=True)
class OpenReplay:
    """A replay as it was when it was read."""

    version: FileVersion
    analysis: ReplayAnalysis
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
        replay.path = Path(file.name)
        analysis = ReplayAnalysis(replay)
        return OpenReplay(file.version, analysis, len(replay.header.players))
