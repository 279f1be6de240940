"""Checks of the machine during a training run: processes, temporary files, memory and disk.

A check never stops a run and never raises: it skips what cannot be measured.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil

from arena.core.text import duration_in_words, size_text
from trainers.config.config import TrainConfig

GB = 1e9
MOST_FILES = 10_000
"""Entries of the temporary folder that one check reads, so that it causes little load."""
SOON = 3600.0
"""Seconds. Warn of a full disk if it is expected sooner than this."""
CLEAR_FALL = 0.1
"""Share of the free space that must be used up before a rate is computed from it."""
CLOCK_STEP = 0.1
"""Seconds by which the time of a file may be behind the clock of this process."""


@dataclass(frozen=True, slots=True)
class TemporaryFiles:
    """Files of this user in the temporary folder that are younger than the run."""

    size: float = 0.0
    """Bytes on disk."""
    complete: bool = True
    """False if there were more files than one check reads."""


@dataclass(frozen=True, slots=True)
class Readings:
    """State of the machine at one moment. None: not measured. Sizes are in bytes."""

    seconds: float
    """Since the start of the run."""
    children: Counter[str] | None = None
    """Child processes and their descendants, by name."""
    temporary: TemporaryFiles = TemporaryFiles()
    ages: Sequence[float] = ()
    """Seconds since each running game started."""
    memory_used: float | None = None
    """Share of the machine's memory."""
    memory_own: float | None = None
    disk_free: float | None = None


class Health:
    """Periodic check of the machine. A warning is repeated only after its cause has cleared."""

    def __init__(
        self,
        config: TrainConfig,
        notify: Callable[[str], None],
        rollout_ages: Callable[[], Sequence[float]],
        folder: Path,
    ) -> None:
        """Start the clock of the run.

        Args:
            config: The limits (`health_…`).
            notify: Receives the warnings, in the event loop.
            rollout_ages: Returns the seconds since each running game started.
            folder: Folder on the disk that must not become full.
        """
        self._config = config
        self._notify = notify
        self._rollout_ages = rollout_ages
        self._folder = folder
        self._started = time.monotonic()
        # Wall clock for the times of files, monotonic clock for durations.
        self._started_at = time.time() - CLOCK_STEP
        self._free_at_start = free_space(folder)
        self._active: set[str] = set()
        self._unreported: list[str] = []

    async def run(self) -> None:
        """Check until cancelled. Measuring runs in a thread, since a slow disk may block it."""
        while True:
            await asyncio.sleep(self._config.health_every)
            ages = tuple(self._rollout_ages())
            readings = await asyncio.to_thread(self._measure, ages)
            for warning in self.judge(readings):
                self._notify(warning)

    def check(self) -> list[str]:
        """Check once and return the new warnings."""
        return self.judge(self._measure(tuple(self._rollout_ages())))

    def take_warnings(self) -> tuple[str, ...]:
        """Return all warnings since the last call."""
        warnings, self._unreported = tuple(self._unreported), []
        return warnings

    def judge(self, readings: Readings) -> list[str]:
        """Return the warnings of these readings that the previous readings did not give."""
        warnings = dict(self._causes(readings))
        new = [warnings[cause] for cause in warnings if cause not in self._active]
        # A cause that has cleared leaves the set, so that it is reported again if it returns.
        self._active = set(warnings)
        self._unreported += new
        return new

    def _measure(self, ages: Sequence[float]) -> Readings:
        memory_used = memory_own = children = None
        with suppress(psutil.Error, OSError):
            memory_used = psutil.virtual_memory().percent / 100
            memory_own = float(psutil.Process().memory_info().rss)
        with suppress(psutil.Error, OSError):
            children = children_by_name()
        return Readings(
            time.monotonic() - self._started,
            children,
            temporary_files(self._started_at, self._folder),
            ages,
            memory_used,
            memory_own,
            free_space(self._folder),
        )

    def _causes(self, readings: Readings) -> Iterator[tuple[str, str]]:
        """Yield each problem: a key for it, and the warning."""
        limits, children, temporary = self._config, readings.children, readings.temporary
        if children and children.total() > limits.health_children:
            most = ", ".join(f"{count} × {name}" for name, count in children.most_common(3))
            yield "children", f"{children.total()} child processes ({most})"
        if temporary.size > limits.health_temp_gb * GB:
            size = f"{'' if temporary.complete else 'at least '}{size_text(temporary.size)}"
            where = tempfile.gettempdir()
            yield "temporary", f"{size} of files newer than this run in {where}"
        stale = [age for age in readings.ages if age > limits.health_rollout_age]
        if stale:
            games = "1 game has" if len(stale) == 1 else f"{len(stale)} games have"
            limit, oldest = map(duration_in_words, (limits.health_rollout_age, max(stale)))
            yield "stale", f"{games} been running for over {limit}, the oldest {oldest}"
        used, own = readings.memory_used, readings.memory_own
        if used is not None and used > limits.health_memory:
            of_this = "" if own is None else f", {size_text(own)} by this process"
            yield "memory", f"{used:.0%} of the memory is in use{of_this}"
        yield from self._disk(readings)

    def _disk(self, readings: Readings) -> Iterator[tuple[str, str]]:
        """Yield the forecast and the fact as separate causes, so that both are reported."""
        free = readings.disk_free
        if free is None:
            return
        # Linear extrapolation from the start of the run; None if too little was used up.
        left = seconds_until_full(self._free_at_start, free, readings.seconds)
        when = f"; full in about {duration_in_words(left)} at this rate" if left is not None else ""
        if free < self._config.health_disk_gb * GB:
            yield "disk", f"only {size_text(free)} free on the disk of {self._folder}{when}"
        elif left is not None and left < SOON:
            yield "disk soon", f"the disk of {self._folder} fills up: {size_text(free)} free{when}"


def children_by_name() -> Counter[str]:
    """Count all descendants of this process by name, without those that end meanwhile."""
    names: Counter[str] = Counter()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            names[child.name()] += 1
    return names


def temporary_files(since: float, excluded: Path) -> TemporaryFiles:
    """Measure this user's temporary files since a time, without the folder `excluded`."""
    size, count = 0.0, 0
    # Depth-first search with a bound on the number of entries, also of those pending.
    pending = list(_own_entries(Path(tempfile.gettempdir()), since))
    while pending:
        path = pending.pop()
        count += 1
        if count > MOST_FILES:
            return TemporaryFiles(size, complete=False)
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                # Never more pending entries than can still be counted: a huge folder is not listed.
                room = max(0, MOST_FILES + 1 - count - len(pending))
                pending += [] if _same(path, excluded) else islice(path.iterdir(), room)
            elif (status := path.lstat()).st_mtime >= since:
                # Blocks, not the length: a sparse file takes less space than its length.
                size += getattr(status, "st_blocks", status.st_size / 512) * 512
    return TemporaryFiles(size)


def _own_entries(folder: Path, since: float) -> Iterator[Path]:
    """Yield this user's new entries of a folder; stop if the folder disappears."""
    # Windows has no user ids; there all entries count.
    user = os.getuid() if hasattr(os, "getuid") else None
    with suppress(OSError):
        for path in islice(folder.iterdir(), MOST_FILES + 1):
            with suppress(OSError):
                status = path.lstat()
                if user in (None, status.st_uid) and status.st_mtime >= since:
                    yield path


def _same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return path.samefile(other)
    return False


def free_space(folder: Path) -> float | None:
    """Return the free bytes on the disk of a folder, which may not exist yet."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            return float(shutil.disk_usage(place).free)
    return None


def seconds_until_full(at_start: float | None, now: float, seconds: float) -> float | None:
    """Extrapolate the free bytes linearly: now / ((at_start - now) / seconds).

    None if too little has been used up since the start for a rate.
    """
    if at_start is None or seconds <= 0:
        return None
    used = at_start - now
    # Free bytes / (used bytes per second).
    return now * seconds / used if used > CLEAR_FALL * at_start else None
