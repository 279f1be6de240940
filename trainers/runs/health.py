"""Checks of the machine during a training run: memory, disk, and games that do not end.

A check never stops a run and never raises: it skips what cannot be measured.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from arena.core.text import duration_in_words, size_text

EVERY = 60.0
"""Seconds between checks."""
MOST_MEMORY = 0.9
"""Share of the memory in use above which a warning is given."""
LEAST_DISK = 1e9
"""Free bytes on the disk of the runs below which a warning is given."""
MOST_SECONDS = 3600.0
"""Duration of a game after which a warning is given."""


class Health:
    """Periodic check of the machine. A warning is repeated only after its cause has cleared."""

    def __init__(
        self,
        notify: Callable[[str], None],
        rollout_ages: Callable[[], Sequence[float]],
        folder: Path,
    ) -> None:
        """Prepare the checks.

        `notify` receives the warnings, in the event loop. `rollout_ages` returns the seconds since
        each running game started. The disk of the folder must not become full.
        """
        self._notify = notify
        self._rollout_ages = rollout_ages
        self._folder = folder
        self._active: set[str] = set()
        self._unreported: list[str] = []

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            for warning in self.check():
                self._notify(warning)

    def check(self) -> list[str]:
        """Check once; return the warnings that the check before did not give."""
        warnings = dict(self._causes())
        new = [warnings[cause] for cause in warnings if cause not in self._active]
        # A cause that has cleared leaves the set, so that it is reported again if it returns.
        self._active = set(warnings)
        self._unreported += new
        return new

    def take_warnings(self) -> tuple[str, ...]:
        """Return all warnings since the last call."""
        warnings, self._unreported = tuple(self._unreported), []
        return warnings

    def _causes(self) -> Iterator[tuple[str, str]]:
        """Yield each problem: a key for it, and the warning."""
        stale = [age for age in self._rollout_ages() if age > MOST_SECONDS]
        if stale:
            games = "1 game has" if len(stale) == 1 else f"{len(stale)} games have"
            limit, oldest = map(duration_in_words, (MOST_SECONDS, max(stale)))
            yield "stale", f"{games} been running for over {limit}, the oldest {oldest}"
        with suppress(psutil.Error, OSError):
            used = psutil.virtual_memory().percent / 100
            own = size_text(psutil.Process().memory_info().rss)
            if used > MOST_MEMORY:
                yield "memory", f"{used:.0%} of the memory is in use, {own} by this process"
        free = free_space(self._folder)
        if free is not None and free < LEAST_DISK:
            yield "disk", f"only {size_text(free)} free on the disk of {self._folder}"


def free_space(folder: Path) -> float | None:
    """Return the free bytes on the disk of a folder, which may not exist yet."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            return float(shutil.disk_usage(place).free)
    return None
