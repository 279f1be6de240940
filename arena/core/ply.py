"""Decisions and plies: the choice of an agent, and the events that followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from arena.core.action import CHANCE, Action
from arena.core.event import Event


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice of an agent, with details for the replay."""

    action: Action
    failure: str | None = None
    """Reason why a fallback was played instead of the agent's own choice; None if it was not."""
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    """Data about how the agent came to its choice."""


@dataclass(frozen=True, slots=True)
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
