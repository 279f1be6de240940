"""The machine under a training run: a look now and then, and a warning before it is too late.

Nothing here stops a run, and nothing raises: what cannot be measured is not warned of.
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

from trainers.config.config import TrainConfig
from trainers.runs.durations import in_words

GB = 1e9
MOST_FILES = 10_000
"""Entries of the temporary folder that one check looks at: it must not become a load itself."""
SOON = 3600.0
"""Seconds. A disk that will be full later than this is not yet news."""
CLEAR_FALL = 0.1
"""Share of the space that must be gone before its fall is taken for a rate."""
CLOCK_STEP = 0.1
"""Seconds by which a file's time may lag behind the clock that this process reads."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """Files of this user in the temporary folder that are younger than the run."""

    size: float = 0.0
    """Bytes on disk."""
    all_seen: bool = True
    """False if there were more files than one check looks at."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The machine at one moment; None for what could not be measured. Sizes are bytes."""

    seconds: float
    """Since the run began."""
    children: Counter[str] | None = None
    """Child processes by name, theirs included."""
    temporary: Temporary = Temporary()
    ages: Sequence[float] = ()
    """How long each game has been going on, in seconds."""
    memory_used: float | None = None
    """Share of the machine's memory."""
    memory_own: float | None = None
    disk_free: float | None = None


class Health:
    """Looks at the machine every `health_every` seconds; each warning comes once until it clears.

    `say` is called from the event loop; `rollout_ages` gives the seconds for which each running
    game has been going on; `folder` lies on the disk that must not fill up.
    """

    def __init__(
        self,
        config: TrainConfig,
        say: Callable[[str], None],
        rollout_ages: Callable[[], Sequence[float]],
        folder: Path,
    ) -> None:
        self._config = config
        self._say = say
        self._rollout_ages = rollout_ages
        self._folder = folder
        self._began = time.monotonic()
        self._began_at = time.time() - CLOCK_STEP
        self._free_at_first = free_space(folder)
        self._standing: set[str] = set()
        self._untold: list[str] = []

    async def run(self) -> None:
        """Check for ever; ended by cancelling. A slow disk holds up a thread, not the games."""
        while True:
            await asyncio.sleep(self._config.health_every)
            ages = tuple(self._rollout_ages())
            readings = await asyncio.to_thread(self._measure, ages)
            for warning in self.judge(readings):
                self._say(warning)

    def check(self) -> list[str]:
        """Look once, now; the warnings that are new."""
        return self.judge(self._measure(tuple(self._rollout_ages())))

    def take_warnings(self) -> tuple[str, ...]:
        """All warnings since this was last asked."""
        taken, self._untold = tuple(self._untold), []
        return taken

    def judge(self, readings: Readings) -> list[str]:
        """The warnings that these readings give and the last ones did not."""
        found = dict(self._causes(readings))
        new = [found[cause] for cause in found if cause not in self._standing]
        self._standing = set(found)
        self._untold += new
        return new

    def _measure(self, ages: Sequence[float]) -> Readings:
        memory_used = memory_own = children = None
        with suppress(psutil.Error, OSError):
            memory_used = psutil.virtual_memory().percent / 100
            memory_own = float(psutil.Process().memory_info().rss)
        with suppress(psutil.Error, OSError):
            children = children_by_name()
        return Readings(
            time.monotonic() - self._began,
            children,
            temporary_files(self._began_at, self._folder),
            ages,
            memory_used,
            memory_own,
            free_space(self._folder),
        )

    def _causes(self, readings: Readings) -> Iterator[tuple[str, str]]:
        """What is wrong: a word for it, and the warning."""
        limits = self._config
        if readings.children and readings.children.total() > limits.health_children:
            yield "children", _too_many_children(readings.children)
        if readings.temporary.size > limits.health_temp_gb * GB:
            yield "temporary", _too_many_files(readings.temporary)
        stale = [age for age in readings.ages if age > limits.health_rollout_age]
        if stale:
            yield "stale", _too_old(stale, limits.health_rollout_age)
        if readings.memory_used is not None and readings.memory_used > limits.health_memory:
            yield "memory", _too_little_memory(readings.memory_used, readings.memory_own)
        yield from self._disk(readings)

    def _disk(self, readings: Readings) -> Iterator[tuple[str, str]]:
        """The forecast and the fact are two warnings: who saw the first will want the second."""
        free = readings.disk_free
        if free is None:
            return
        left = seconds_until_full(self._free_at_first, free, readings.seconds)
        when = f"; full in about {in_words(left)} at this rate" if left is not None else ""
        if free < self._config.health_disk_gb * GB:
            yield "disk", f"only {_size(free)} free where {self._folder} lies{when}"
        elif left is not None and left < SOON:
            yield "disk soon", f"the disk of {self._folder} fills up: {_size(free)} free{when}"


def children_by_name() -> Counter[str]:
    """The child processes of this one and theirs, counted; one that ends meanwhile is left out."""
    names: Counter[str] = Counter()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            names[child.name()] += 1
    return names


def temporary_files(since: float, besides: Path) -> Temporary:
    """What this user has put in the temporary folder since then, but for the folder `besides`."""
    size, looked_at = 0.0, 0
    pending = list(_own_entries(Path(tempfile.gettempdir()), since))
    while pending:
        path = pending.pop()
        looked_at += 1
        if looked_at > MOST_FILES:
            return Temporary(size, all_seen=False)
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                room = max(0, MOST_FILES + 1 - looked_at - len(pending))
                pending += [] if _same(path, besides) else islice(path.iterdir(), room)
            elif (status := path.lstat()).st_mtime >= since:
                # A sparse file is as large as its blocks.
                size += getattr(status, "st_blocks", status.st_size / 512) * 512
    return Temporary(size)


def _own_entries(folder: Path, since: float) -> Iterator[Path]:
    """An iterator that a vanished folder ends early."""
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
    """Bytes free where a folder lies, or will lie."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            return float(shutil.disk_usage(place).free)
    return None


def seconds_until_full(at_first: float | None, now: float, seconds: float) -> float | None:
    """When the disk is full if it goes on filling as it has since the start; None: not in sight."""
    if at_first is None or seconds <= 0:
        return None
    fall = at_first - now
    return now * seconds / fall if fall > CLEAR_FALL * at_first else None


def _too_many_children(names: Counter[str]) -> str:
    most = ", ".join(f"{count} × {name}" for name, count in names.most_common(3))
    return f"{names.total()} child processes ({most})"


def _too_many_files(temporary: Temporary) -> str:
    least = "" if temporary.all_seen else "at least "
    where = tempfile.gettempdir()
    return f"{least}{_size(temporary.size)} of files newer than this run in {where}"


def _too_old(ages: Sequence[float], limit: float) -> str:
    games = "1 game has" if len(ages) == 1 else f"{len(ages)} games have"
    return f"{games} been going on for over {in_words(limit)}, the oldest {in_words(max(ages))}"


def _too_little_memory(used: float, own: float | None) -> str:
    of_this = "" if own is None else f", {_size(own)} by this process"
    return f"{used:.0%} of the memory is in use{of_this}"


def _size(size: float) -> str:
    return f"{size / GB:.1f} GB" if size >= 0.1 * GB else f"{size / 1e6:.1f} MB"
