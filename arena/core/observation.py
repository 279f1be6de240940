"""Observations: the part of a game that one player may know, as events, text and arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from pydantic import JsonValue

from arena.core.action import Action, ActionSet, ActionTable
from arena.core.errors import IllegalAction
from arena.core.event import Event

if TYPE_CHECKING:
    from numpy.typing import NDArray


TextLevel = Literal["events", "notes", "deductions"]
"""Amount of help that a text gives. "events": the public and private events. "notes": also a
notebook of facts that follow directly from the player's own events. "deductions": also everything
that follows logically."""


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
    def score_beliefs(self, answer: str, observation: Observation) -> dict[str, JsonValue]: ...


class Notes:
    """Facts that a player derives from its events; a game subclasses it to render observations.

    Only `update` changes it, so a decision costs only as much as the new events.
    """

    def __init__(self, game: ObservedGame, player: int) -> None:
        self.game = game
        self.player = player

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""


class NotesCache:
    """The notes of one player, and the number of events that they include."""

    __slots__ = ("notes", "num_events")

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.num_events = 0

    def advance(self, events: tuple[Event, ...]) -> Notes:
        """Add the events that the notes do not include yet."""
        # Only new events: the notes are incremental, so a game costs linear time, not quadratic.
        for event in events[self.num_events :]:
            self.notes.update(event)
        self.num_events = len(events)
        return self.notes


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observation:
    """The knowledge of one player now: the events that it witnessed and its legal actions.

    An immutable snapshot: later moves do not change it, and nothing in it depends on what is
    hidden from the player. Text, notes and arrays are computed on request.
    """

    game: ObservedGame
    player: int
    events: tuple[Event, ...]
    """All events that the player has witnessed, oldest first."""
    legal_actions: ActionSet
    _notes_cache: NotesCache | None = None

    @property
    def num_events(self) -> int:
        """The number of events that the player has witnessed."""
        return len(self.events)

    def events_since(self, count: int) -> tuple[Event, ...]:
        """Return the events after the first `count`, for a reader who knows those already."""
        return self.events[count:]

    @property
    def notes(self) -> Notes:
        """The game's notes up to this observation. Read-only: do not change them."""
        cache = self._notes_cache
        # The shared cache may be ahead of an old observation.
        if cache is None or cache.num_events > len(self.events):
            cache = NotesCache(self.game.new_notes(self.player))
        return cache.advance(self.events)

    def text(self, level: TextLevel = "notes", since: int = 0, forget: int = 0) -> str:
        """Return the situation in words.

        Args:
            level: Amount of help, see `TextLevel`.
            since: Return only what is new after this number of events.
            forget: Return the whole situation, with the first events (this many) summarised.
        """
        # Omitted events are summarised, so the text starts from the beginning and `since` has no
        # meaning.
        if forget:
            return self.game.summarise(self, level, forget)
        return self.game.describe(self, level, since)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the situation as arrays, with the shapes of `game.array_specs`."""
        return self.game.arrays(self)

    def parse(self, text: str) -> Action:
        """Return the legal action that `text` names.

        Raises:
            ActionError: The text names no action, several, or one that is not legal now.
        """
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

    # Equality compares all events; a hash would have to read all of them too.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Observation of player {self.player}: {self.num_events} events>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Without notes and the table of actions: both are made again from the game.
        return _unpickle, (self.game, self.player, self.events, self.legal_actions.actions)


def _unpickle(
    game: ObservedGame, player: int, events: tuple[Event, ...], actions: tuple[Action, ...]
) -> Observation:
    return Observation(game, player, events, game.actions.subset(actions))
