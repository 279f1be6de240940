"""Cache of analysed replays: each is read and played once, and the latest few are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

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
    """Thread-safe cache of the replays that were asked for last."""

    def __init__(self) -> None:
        self._replays: dict[Path, OpenReplay] = {}
        """Replays by their file, the latest one last."""
        self._lock = Lock()

    def get(self, file: ServedFile) -> OpenReplay:
        """Return the current state of the replay.

        Raises:
            HttpError: It cannot be opened; the message contains the served name of the file.
        """
        # The page sends several requests at once: the first reads the file, the others wait.
        with self._lock:
            replay = self._replays.pop(file.path, None)
            if replay is None or replay.version != file.version:
                self._evict_for(file)
                replay = open_replay(file)
            self._replays[file.path] = replay
            return replay

    def _evict_for(self, file: ServedFile) -> None:
        """Remove replays until there is room for one more."""
        room = MAX_BYTES - file.version.bytes
        while self._replays and (
            len(self._replays) >= MAX_REPLAYS
            or sum(replay.version.bytes for replay in self._replays.values()) > room
        ):
            del self._replays[next(iter(self._replays))]


def open_replay(file: ServedFile) -> OpenReplay:
    """Read a replay and play it.

    Raises:
        HttpError: Status 422; the file is too large, not a replay, or cannot be played.
    """
    if file.version.bytes > MAX_BYTES:
        raise HttpError(
            422,
            f"{file.name} is too large: {file.version.bytes / 2**20:.0f} MiB; the limit is "
            f"{MAX_BYTES / 2**20:.0f} MiB",
        )
    with served_name(file):
        replay = read_replay(file.path)
        # Errors of moves contain the served name, not the path on this machine.
        replay.path = Path(file.name)
        analysis = ReplayAnalysis(replay)
        return OpenReplay(file.version, analysis, len(replay.header.players))
