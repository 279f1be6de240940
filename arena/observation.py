"""Events, and what one player may know of a game: its observation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from arena.action import Action, ActionSet
from arena.errors import IllegalAction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arena.game import Game

TextLevel = Literal["events", "notes", "deductions"]
"""How much help a text gives: what was said at the table, plus a notebook of what certainly
follows from what the player saw itself, plus everything that logically follows."""

Json = Any
"""A value that the json module can write."""


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


@dataclasses.dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape, bounds (inclusive) and dtype of one array of an observation."""

    shape: tuple[int, ...]
    low: float
    high: float
    dtype: str = "int8"


class Notes:
    """What a player can keep while events go by; a game subclasses it to render its observations.

    Only `update` changes it, so cost per decision is that of the new events.
    """

    def __init__(self, game: Game, player: int) -> None:
        self.game = game
        self.player = player

    def update(self, event: Event) -> None:
        """Take in one more event that the player witnessed."""


class Knowledge(Protocol):
    """What one player's view implies, computed exactly, where a game can do that."""

    def update(self, event: Event) -> None:
        """Take in one more event that the player witnessed."""

    def entropy(self) -> float:
        """Uncertainty about what the game hides, in bits."""

    def world_count(self) -> int:
        """How many hidden worlds are consistent with the view."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Where each hidden thing may be: one row per thing, one column per place."""

    things: tuple[str, ...]
    kinds: tuple[str, ...]
    """Of each thing, the heading that it stands under."""
    places: tuple[str, ...]
    probabilities: tuple[tuple[float, ...], ...]
    """Exact; a thing that lies open to everybody has a row of zeros."""


@runtime_checkable
class PlacedKnowledge(Knowledge, Protocol):
    """Knowledge of a game that hides things in places: cards in hands, for example."""

    def placement(self) -> Placement:
        """How probable each place of each thing is."""


class NotesCell:
    """One player's notes and how many events they have taken in."""

    __slots__ = ("notes", "read")

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.read = 0

    def catch_up(self, seen: list[Event], length: int) -> Notes:
        for event in seen[self.read : length]:
            self.notes.update(event)
        self.read = length
        return self.notes


class Observation:
    """What one player may know now: the events it witnessed and its legal actions.

    A snapshot: later moves do not change it. Text, notes and arrays are made when asked for.
    """

    __slots__ = ("_cell", "_seen", "game", "legal_actions", "num_events", "player")

    def __init__(
        self,
        game: Game,
        player: int,
        seen: list[Event],
        legal_actions: ActionSet,
        cell: NotesCell | None = None,
    ) -> None:
        self.game = game
        self.player = player
        self.legal_actions = legal_actions
        self.num_events = len(seen)
        self._seen = seen
        self._cell = cell

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything the player has witnessed, oldest first."""
        return tuple(self._seen[: self.num_events])

    def events_since(self, count: int) -> list[Event]:
        """The events after the first `count`: what is new to a reader who has read that many."""
        return self._seen[count : self.num_events]

    @property
    def notes(self) -> Notes:
        """The game's notes up to this observation; read them, do not change them."""
        cell = self._cell
        if cell is None or cell.read > self.num_events:
            cell = NotesCell(self.game.new_notes(self.player))
        return cell.catch_up(self._seen, self.num_events)

    def text(self, level: TextLevel = "notes", since: int = 0, forget: int = 0) -> str:
        """The situation in words; with `since`, only what is new after that many events.

        With `forget`, the whole situation, but the first so many events are not told one by one.
        """
        if forget:
            return self.game.summarise(self, level, forget)
        return self.game.describe(self, level, since)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The situation as arrays, shaped as `game.array_specs` says."""
        return self.game.arrays(self)

    def parse(self, text: str) -> Action:
        """The legal action that `text` names; raises an ActionError that says what is wrong."""
        action = self.game.actions.parse(text)
        if action not in self.legal_actions:
            raise IllegalAction(f"'{action}' is not allowed now")
        return action

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Observation):
            return NotImplemented
        return (
            self.player == other.player
            and self.game == other.game
            and self.legal_actions == other.legal_actions
            and self.events == other.events
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Observation of player {self.player}: {self.num_events} events>"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "game": self.game,
            "player": self.player,
            "seen": self._seen[: self.num_events],
            "legal_actions": self.legal_actions,
        }

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__init__(**kept)  # type: ignore[misc]
