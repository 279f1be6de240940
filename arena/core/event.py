"""Events, the log of the events that each player has witnessed, and decisions that cause them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import JsonValue

from arena.core.action import CHANCE, Action
from arena.core.text import quote


class Event:
    """Something that happened; a game has a frozen dataclass for each kind of event.

    `audience` holds the seats that witness the event; None is all of them.
    """

    __slots__ = ()

    is_partial: ClassVar[bool] = False
    """True for the version of another event that hides a part of it from its audience, such as a
    card that its owner draws without seeing it. What it shows is public: spectators get it. A
    viewer who sees everything needs the other one only."""

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None

    def seen_by(self, player: int) -> bool:
        """Return True if this seat witnesses the event."""
        return self.audience is None or player in self.audience

    def shown_to(self, seat: int | None) -> bool:
        """Return True if a list of events for this seat has it; None is a viewer of everything."""
        return not self.is_partial if seat is None else self.seen_by(seat)

    def to_json(self) -> dict[str, JsonValue]:
        """Return `{"event": class name, "audience": seats or None, **fields}`."""
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }
        audience = None if self.audience is None else list[JsonValue](self.audience)
        return {"event": type(self).__name__, "audience": audience, **fields}


@dataclasses.dataclass(frozen=True, slots=True)
class PrivateEvent(Event):
    """Base of events that only one player witnesses."""

    player: int

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


@dataclasses.dataclass(frozen=True, slots=True)
class Spoken(Event):
    """A player speaks, to all seats or to some."""

    player: int
    text: str
    to: tuple[int, ...] | None = None
    """Seats that hear it beside the speaker; None is all of them."""

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None if self.to is None else tuple(sorted({self.player, *self.to}))

    def sentence(self, names: tuple[str, ...]) -> str:
        """Return it as a sentence. Every game quotes speech by it."""
        return f"{names[self.player]}: {quote(self.text)}"


class EventLog:
    """All events of a game so far, and the part of them that each player has witnessed."""

    __slots__ = ("events", "witnessed")

    def __init__(self, num_players: int) -> None:
        self.events: list[Event] = []
        self.witnessed: list[list[Event]] = [[] for _ in range(num_players)]
        """Events by player. Invariant: each list is `events`, filtered by audience."""

    def append(self, event: Event) -> None:
        """Add an event to the log and to the list of each player in its audience."""
        self.events.append(event)
        audience = event.audience
        if audience is None:
            for events in self.witnessed:
                events.append(event)
        else:
            for player in audience:
                # The same object in all lists: events are immutable.
                self.witnessed[player].append(event)

    def copy(self) -> EventLog:
        """Return an independent log of the same events."""
        # Without players, since the lists are replaced next.
        twin = EventLog(0)
        twin.events = self.events.copy()
        twin.witnessed = [events.copy() for events in self.witnessed]
        return twin


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The choice of an agent, with details for the replay."""

    action: Action
    failure: str | None = None
    """Reason why a fallback was played instead of the agent's own choice; None if it was not."""
    details: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict)
    """Data about how the agent came to its choice."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ply:
    """One applied action and the events that it caused."""

    number: int
    player: int
    decision: Decision
    events: tuple[Event, ...]
    seconds: float | None = None
    """Time of the decision; None for chance."""

    def lines(self) -> Iterator[dict[str, JsonValue]]:
        """Yield the lines of a replay for this ply."""
        action = str(self.decision.action)
        if self.player == CHANCE:
            yield {"type": "chance", "ply": self.number, "action": action}
        else:
            yield {
                "type": "decision",
                "ply": self.number,
                "player": self.player,
                "action": action,
                "failure": self.decision.failure,
                "details": dict(self.decision.details),
                # Microseconds are the resolution of a replay.
                "seconds": round(self.seconds or 0.0, 6),
            }
        # After the move, since a reader assigns events to the last move.
        for event in self.events:
            yield {"type": "event", "ply": self.number, **event.to_json()}
