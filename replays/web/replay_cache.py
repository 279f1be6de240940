"""Replays that are open: each is read and played once, and the last few are kept."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from arena.core.errors import ArenaError, ReplayError
from arena.episodes.record import Branch
from arena.episodes.replay import Replay, read_replay
from replays.analysis.study import Study
from replays.web.http_errors import Refused
from replays.web.replay_directory import ReplayFile, Stamp

MOST_BYTES = 200 * 2**20
"""Of all files together that are kept open, and of the largest that is opened."""
MOST_STUDIES = 4


@dataclass(slots=True)
class OpenReplay:
    """A replay as it was when it was read."""

    stamp: Stamp
    study: Study
    branches: tuple[Branch, ...]
    seats: int
    lock: Lock = field(default_factory=Lock)
    """For what the study keeps. Comments and summaries need none: judging takes long, has a lock
    of its own, and nobody else should wait for it."""


class Shelf:
    """Opens replays for several threads; what was not asked for the longest goes first."""

    def __init__(self, most_bytes: int = MOST_BYTES, most: int = MOST_STUDIES) -> None:
        self._most_bytes = most_bytes
        self._most = most
        self._kept: OrderedDict[Path, OpenReplay] = OrderedDict()
        self._lock = Lock()
        self._opening: WeakValueDictionary[Path, Lock] = WeakValueDictionary()

    def take(self, file: ReplayFile) -> OpenReplay:
        """The replay as it is now. Raises Refused, in words that name the file by its name."""
        with self._lock:
            opening = self._opening.setdefault(file.path, Lock())
        with opening:  # Several requests of one page want it at once; one reads it.
            kept = self._find(file)
            if kept is None:
                self._make_room(file)
                kept = open_replay(file, self._most_bytes)
                with self._lock:
                    self._kept[file.path] = kept
            return kept

    def _find(self, file: ReplayFile) -> OpenReplay | None:
        with self._lock:
            kept = self._kept.get(file.path)
            if kept is None or kept.stamp != file.stamp:
                return None
            self._kept.move_to_end(file.path)
            return kept

    def _make_room(self, file: ReplayFile) -> None:
        with self._lock:
            self._kept.pop(file.path, None)  # It is of an earlier state of the file.
            while self._kept and (
                len(self._kept) >= self._most or self._bytes() > self._room(file)
            ):
                self._kept.popitem(last=False)

    def _bytes(self) -> int:
        return sum(kept.stamp.bytes for kept in self._kept.values())

    def _room(self, file: ReplayFile) -> int:
        return self._most_bytes - file.stamp.bytes


def open_replay(file: ReplayFile, most_bytes: int = MOST_BYTES) -> OpenReplay:
    """Read a replay and play it. Raises Refused with status 422 if that cannot be done."""
    if file.stamp.bytes > most_bytes:
        raise Refused(
            422,
            f"{file.name} is larger ({file.stamp.bytes / 2**20:.0f} MiB) than what is opened here "
            f"({most_bytes / 2**20:.0f} MiB)",
        )
    try:
        replay = _read(file)
        header = replay.header
        return OpenReplay(file.stamp, Study(replay), header.branches, len(header.players))
    except ArenaError as error:
        raise Refused(422, str(error)) from error


def _read(file: ReplayFile) -> Replay:
    """Its messages name the file as the page does: where it lies is nobody's business."""
    try:
        replay = read_replay(file.path)
    except ReplayError as error:
        raise ReplayError(str(error).replace(str(file.path), file.name)) from None
    replay.path = Path(file.name)
    return replay
