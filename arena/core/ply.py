"""Decisions and plies: what an agent chose and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from arena.core.action import CHANCE, Action
from arena.core.event import Event
from arena.core.json import Json


@dataclass(frozen=True, slots=True)
class Decision:
    """What an agent chose, and what the replay should keep of how it came to it."""

    action: Action
    failure: str | None = None
    """Why the action is a fallback and not the agent's own choice; None if it is its own."""
    details: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ply:
    """One applied action and what it brought about."""

    number: int
    player: int
    decision: Decision
    events: tuple[Event, ...]
    seconds: float | None = None

    def lines(self) -> Iterator[dict[str, Json]]:
        """The lines of a replay for this ply."""
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
                "seconds": round(self.seconds or 0.0, 6),
            }
        for event in self.events:
            yield {"type": "event", "ply": self.number, **event.to_json()}
