"""Events, the log of those that players have witnessed, decisions and the outcome of a game."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a game, and the return of each seat."""

    status: Literal["terminated", "truncated"]
    """Ended by a rule, or stopped at a limit."""
    reason: str
    returns: tuple[float, ...]
    roles: tuple[str, ...] = ()
    """Role of each seat; () if the game deals none."""
    teams: tuple[int, ...] = ()
    """Team of each seat; () if each seat plays for itself."""

    @property
    def winner(self) -> int | None:
        """The seat with the highest return; None if several seats have it."""
        best = max(self.returns)
        # Equal highest returns are a draw, which has no winner.
        return self.returns.index(best) if self.returns.count(best) == 1 else None

    def is_winner(self, seat: int) -> bool:
        """Return whether the seat, or its team, alone has the highest return.

        A team that includes all players has no rivals, so it wins by no comparison.
        """
        if not self.teams:
            return self.winner == seat
        best = max(self.returns)
        best_teams = {
            team for team, value in zip(self.teams, self.returns, strict=True) if value == best
        }
        return best_teams == {self.teams[seat]} and len(set(self.teams)) > 1


@dataclass(frozen=True, slots=True)
class ReturnScale:
    """Scale of the return of one seat in one game: name, unit, range, and how it is won.

    The range is that of `min_utility` and `max_utility` in OpenSpiel. It holds at every position,
    because a truncated game counts with its returns so far. An unknown end is None.
    """

    name: str = "return"
    """A noun for headings and sentences: `return`, `score`."""
    unit: str = ""
    """Unit of one game's return: `chips`. `share` is shown in per cent."""
    low: float | None = None
    high: float | None = None
    total: float | None = None
    """Sum of the returns of all seats at the end, if the rules fix it."""
    par: float | Literal["even", "unknown"] = "even"
    """Win rate of equal players if no game is drawn; reports print it beside win rates. `even` is
    1 / players; a game of teams sets its own; it is unknown where one of two uneven teams has the
    better chances."""
    team_names: tuple[str, ...] = ()
    """Names of the teams by number, as in "the return as NAME"; () if they need none."""
    has_winner: bool = True
    """False for a game of one team, which earns a score and is not won."""
    has_rivals: bool = True
    """False where what one player gains need not be lost by another: a person is then shown the
    points, and not who has most."""

    def __post_init__(self) -> None:
        low, high = self.bounds
        # NaN fails the comparison.
        if not low < high or not all(map(math.isfinite, self._known_ends)):
            raise ValueError(
                f"the range {self.low} to {self.high} of the {self.name}: give finite numbers, the "
                "lower one first, or None"
            )
        if not isinstance(self.par, str) and not 0 <= self.par <= 1:
            raise ValueError(f"par={self.par}: give a rate of wins, from 0 to 1")

    @property
    def _known_ends(self) -> list[float]:
        return [end for end in (self.low, self.high) if end is not None]

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest return; infinite where it is unknown."""
        low, high = self.low, self.high
        return (-math.inf if low is None else low, math.inf if high is None else high)

    @property
    def is_bounded(self) -> bool:
        """True if both ends are known."""
        return len(self._known_ends) == 2

    @property
    def difference(self) -> tuple[float, float]:
        """The range of the difference of two returns: [low - high, high - low]."""
        low, high = self.bounds
        return (low - high, high - low)

    @property
    def is_win_rate(self) -> bool:
        """True if the winner of a game gets 1 and every other seat 0."""
        return (self.name, self.unit, self.low, self.high) == ("win rate", "share", 0.0, 1.0)

    @property
    def names_winner_only(self) -> bool:
        """True if a return says no more than who has won: 1 and 0, or ±1 without a unit."""
        return self.is_win_rate or (self.low, self.high, self.unit) == (-1.0, 1.0, "")

    def par_of(self, players: int) -> float | None:
        """Return the win rate of equal players in a game of `players` seats; None: unknown."""
        if isinstance(self.par, str):
            return 1 / players if self.par == "even" else None
        return self.par

    @property
    def range_text(self) -> str:
        """The range in words, `−2 to 2`; empty if it is not known."""
        return f"{self.low:g} to {self.high:g}".replace("-", "−") if self.is_bounded else ""


WIN_RATE = ReturnScale("win rate", "share", 0.0, 1.0)
"""The scale of a game that pays 1 to the winner and 0 to every other seat."""
