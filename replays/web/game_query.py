"""Search, filter and order of the list of games, of which the page requests one part at a time.

The page shows some twenty rows of perhaps 50,000, so it neither receives nor searches the rest.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from arena.core.errors import UsageError
from replays.analysis.documents import ListedReplayJson

SortKey = str | int
ORDERS: dict[str, Callable[[ListedReplayJson], SortKey]] = {
    "game": lambda row: f"{row['game']} {row['variant'] or ''}",
    "players": lambda row: " ".join(row["players"]),
    "result": lambda row: f"{row['status']} {row['reason']}",
    "turns": lambda row: -1 if row["turns"] is None else row["turns"],
    "created": lambda row: row["created"],
}
"""Columns of the list that it can be ordered by."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?", re.ASCII)
ENDED = ("terminated", "truncated")
MAX_PLAYERS = 500
"""Players that are offered as filters."""
MAX_CACHED = 8


@dataclass(frozen=True, slots=True)
class GameQuery:
    """Conditions on games, and an order. Empty conditions hold for all games."""

    text: str = ""
    """Words, each of which occurs in the game's name, file, players or result."""
    player: str = ""
    result: str = ""
    """A status, or `won` or `lost`: by the player, or by any player without one."""
    least: int | None = None
    """Turns."""
    most: int | None = None
    since: str = ""
    """Start of the first day, in UTC. The page knows the time zone of its reader."""
    until: str = ""
    """End of the last day."""
    sort: str = "created"
    descending: bool = True

    def check(self) -> None:
        """Raise UsageError for an unknown order or a time of another form."""
        if self.sort not in ORDERS:
            raise UsageError(f"sort= must be one of {', '.join(ORDERS)}")
        for name, moment in (("since", self.since), ("until", self.until)):
            if moment and not TIME.fullmatch(moment):
                raise UsageError(f"{name}= must be a time in UTC, such as 2026-01-31T00:00Z")

    def matches(self, row: ListedReplayJson) -> bool:
        """Check all conditions but the text."""
        turns = -1 if row["turns"] is None else row["turns"]
        # Times in UTC of equal precision are ordered as texts.
        created = row["created"][:16]
        return (
            (not self.player or self.player in row["players"])
            and (not self.result or self._has_result(row))
            and (self.least is None or turns >= self.least)
            and (self.most is None or 0 <= turns <= self.most)
            and (not self.since or created >= self.since[:16])
            and (not self.until or "" < created < self.until[:16])
        )

    def _has_result(self, row: ListedReplayJson) -> bool:
        if self.result not in ("won", "lost"):
            return row["status"] == self.result
        if row["status"] not in ENDED:
            return False
        winners = [row["players"][seat] for seat in row["winners"] if seat < len(row["players"])]
        won = bool(winners) and (not self.player or self.player in winners)
        return won == (self.result == "won")


class GameIndex:
    """The rows of one snapshot, with their searchable texts and the answers to recent queries."""

    def __init__(self) -> None:
        self._number = 0
        self._rows: Sequence[ListedReplayJson] = ()
        self._players: list[str] = []
        self._texts: dict[int, str] = {}
        """By the identity of a row, which stays the same while its file does."""
        self._answers: OrderedDict[GameQuery, list[ListedReplayJson]] = OrderedDict()
        self._lock = Lock()

    def select(
        self, number: int, rows: Sequence[ListedReplayJson], query: GameQuery
    ) -> tuple[list[ListedReplayJson], list[str]]:
        """Return the rows that match, in order, and the players of all rows.

        Args:
            number: The number of the snapshot.
            rows: Its games.
            query: The conditions and the order.
        """
        with self._lock:
            if number != self._number:
                self._update(number, rows)
            answer = self._answers.get(query)
            if answer is None:
                answer = self._answers[query] = self._find(query)
                if len(self._answers) > MAX_CACHED:
                    self._answers.popitem(last=False)
            return answer, self._players

    def _update(self, number: int, rows: Sequence[ListedReplayJson]) -> None:
        texts = self._texts
        self._texts = {id(row): texts.get(id(row)) or _text(row) for row in rows}
        # The old rows are kept until here, so that no identity is used a second time.
        self._number, self._rows = number, rows
        self._players = sorted({spec for row in rows for spec in row["players"]})[:MAX_PLAYERS]
        self._answers.clear()

    def _find(self, query: GameQuery) -> list[ListedReplayJson]:
        words = query.text.lower().split()
        texts = self._texts
        found = [
            row
            for row in self._rows
            if query.matches(row) and all(word in texts[id(row)] for word in words)
        ]
        # Two stable passes: the path decides between equals, in both directions.
        found.sort(key=lambda row: row["path"])
        found.sort(key=ORDERS[query.sort], reverse=query.descending)
        return found


def _text(row: ListedReplayJson) -> str:
    branch = row["branch"]
    parent = branch["parent"] if branch else None
    fields = [row["game"], row["variant"], row["path"], row["reason"], row["error"], parent]
    return " ".join(filter(None, [*fields, *row["players"]])).lower()
