"""Events and the log of what each player has witnessed."""

from __future__ import annotations

import dataclasses

from arena.core.json import Json


class Event:
    """Something that happened; a frozen dataclass per kind.

    `audience` is None when everybody witnesses it, else the seats that do.
    """

    __slots__ = ()

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None

    def seen_by(self, player: int) -> bool:
        """Whether this seat witnesses it."""
        return self.audience is None or player in self.audience

    def to_json(self) -> dict[str, Json]:
        """`{"event": kind, "audience": seats or None, **fields}`."""
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }
        return {"event": type(self).__name__, "audience": self.audience, **fields}


class EventLog:
    """All events of a game so far, and beside it what each player has witnessed of them."""

    __slots__ = ("events", "witnessed")

    def __init__(self, num_players: int) -> None:
        self.events: list[Event] = []
        self.witnessed: list[list[Event]] = [[] for _ in range(num_players)]

    def append(self, event: Event) -> None:
        self.events.append(event)
        audience = event.audience
        if audience is None:
            for seen in self.witnessed:
                seen.append(event)
        else:
            for player in audience:
                self.witnessed[player].append(event)

    def copy(self) -> EventLog:
        twin = EventLog(0)
        twin.events = self.events.copy()
        twin.witnessed = [seen.copy() for seen in self.witnessed]
        return twin
