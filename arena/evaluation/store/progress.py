"""Progress of a run: a few counts of its results file."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from arena.core.text import printable

MAX_PLAYERS = 100
"""Players that are named."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What a results file holds so far."""

    finished: int
    planned: int
    looks: int
    """Planned sizes at which results were shown."""
    players: tuple[str, ...]
    """In the order in which they were added."""


def read_progress(database: sqlite3.Connection) -> RunProgress:
    """Return the counts of an open results file. Raises sqlite3.Error for a damaged one."""
    specs = database.execute("SELECT spec FROM players ORDER BY id LIMIT ?", (MAX_PLAYERS,))
    # Files of earlier versions have no table of looks.
    looks = "SELECT count(*) FROM sqlite_master WHERE name = 'looks' AND type = 'table'"
    return RunProgress(
        finished=_count(database, "games"),
        planned=_count(database, "schedule"),
        looks=_count(database, "looks") if database.execute(looks).fetchone()[0] else 0,
        players=tuple(printable(str(spec)) for (spec,) in specs),
    )


def _count(database: sqlite3.Connection, table: str) -> int:
    return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
