"""Events, and what one player may know of a game: its observation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from arena.core.action import Action, ActionSet, ActionTable
from arena.core.errors import IllegalAction
from arena.core.event import Event
from arena.core.json import Json

if TYPE_CHECKING:
    from numpy.typing import NDArray


TextLevel = Literal["events", "notes", "deductions"]
"""How much help a text gives: what was said at the table, plus a notebook of what certainly
follows from what the player saw itself, plus everything that logically follows."""


@dataclasses.dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape, bounds (inclusive) and dtype of one array of an observation."""

    shape: tuple[int, ...]
    low: float
    high: float
    dtype: str = "int8"


class ObservedGame(Protocol):
    """The part of a `Game` that its observations and their readers use.

    A protocol, so that `Observation` does not depend on the module of `Game`.
    """

    name: ClassVar[str]

    def __hash__(self) -> int: ...
    @property
    def num_players(self) -> int: ...
    @property
    def seat_names(self) -> tuple[str, ...]: ...
    @property
    def actions(self) -> ActionTable: ...
    @property
    def array_specs(self) -> Mapping[str, ArraySpec]: ...
    def rules(self) -> str: ...
    def narrate(self, event: Event) -> str: ...
    def synonyms(self) -> Mapping[str, str]: ...
    def diagram(self, events: Sequence[Event]) -> str: ...
    def new_notes(self, player: int) -> Notes: ...
    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]: ...
    def fallback_actions(self, observation: Observation) -> Sequence[Action]: ...
    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str: ...
    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str: ...
    def belief_question(self, observation: Observation) -> str | None: ...
    def score_beliefs(self, answer: str, observation: Observation) -> dict[str, Json]: ...


class Notes:
    """What a player can keep while events go by; a game subclasses it to render its observations.

    Only `update` changes it, so cost per decision is that of the new events.
    """

    def __init__(self, game: ObservedGame, player: int) -> None:
        self.game = game
        self.player = player

    def update(self, event: Event) -> None:
        """Take in one more event that the player witnessed."""


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
        game: ObservedGame,
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
