"""Observations: the part of a game that one player may know, as events, text and arrays."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import JsonValue

from arena.core.action import Action, Speech, SpeechOffer
from arena.core.action_set import ActionSet, ActionTable
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


class ObservedGame(ABC):
    """The part of a game that its observations use: seats, actions, texts and arrays.

    `Game` adds positions and analysis. Each rendering has a default, made from the events alone.
    """

    name: ClassVar[str]
    omission_notice: ClassVar[str] = "What was said before is left out."
    """Text for a reader whose earlier messages had to be removed."""
    speech: ClassVar[tuple[type[Speech], ...]] = ()
    """Kinds of speech of the game. Whoever cannot speak, such as a network, has the other actions.
    No action of the table begins with the verb of a kind of speech."""
    picture_shows_notes: ClassVar[bool] = False
    """The picture for a terminal holds all that the notes of the level "notes" say. A person then
    reads them there only."""

    @property
    @abstractmethod
    def num_players(self) -> int:
        """Number of seats; a game with a fixed number sets `num_players = 2`."""

    @abstractmethod
    def _all_actions(self) -> Iterable[Action]:
        """Return all actions that any state may offer to a player."""

    @cached_property
    def actions(self) -> ActionTable:
        """All actions of the game, numbered."""
        return ActionTable(self._all_actions(), self.speech)

    @property
    def seat_names(self) -> tuple[str, ...]:
        """Display names of the players, by seat."""
        return _numbered_names(self.num_players)

    @abstractmethod
    def rules(self) -> str:
        """Return the rules and the notation of actions, for a player who does not know the game."""

    def rule_details(self) -> str:
        """Return sentences that make the rules precise, for models; by default none."""
        return ""

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence, for its audience."""
        return str(event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        """Return an observation as text. The default: the events, then the `situation`."""
        lines = [] if since else [f"You are {self.seat_names[observation.player]}."]
        lines += [self.narrate(event) for event in observation.events_since(since)]
        lines += self.situation(observation, level)
        return "\n".join(lines)

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        """Return the lines after the events: the notes of this level, and the legal actions.

        The default has the legal actions only.
        """
        legal = observation.legal_actions
        return [f"Your actions: {' | '.join(legal.notations())}"] if legal else []

    def belief_question(self, observation: Observation) -> str | None:
        """Return a question to a player about hidden information; the default is None."""
        return None

    def score_beliefs(self, answer: str, observation: Observation) -> dict[str, JsonValue]:
        """Parse an answer to `belief_question` and score it against the exact knowledge."""
        return {}

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        """Return an observation as shorter text, without a list of the first `forget` events.

        The default describes the later events only, with notes at the level "events" too, because
        they replace the omitted events.
        """
        name = self.seat_names[observation.player]
        shown: TextLevel = "notes" if level == "events" else level
        return (
            f"You are {name}. {self.omission_notice}\n{self.describe(observation, shown, forget)}"
        )

    def diagram(self, events: Sequence[Event]) -> str:
        """Return the table as plain text, from the events that its viewer has witnessed."""
        return ""

    def synonyms(self) -> Mapping[str, str]:
        """Return other words for the game's own in replies of models, e.g. `{"knife": "dagger"}`.

        The reader replaces each key by its value, which is a part of some `str(action)`. Case and
        punctuation are ignored, and longer keys are replaced first. A single word that means a
        whole action (`{"done": "end turn"}`) counts only if it is the whole answer.
        """
        return {}

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the actions of which one is drawn for a player that gives no legal answer.

        The default is all legal actions. A game leaves out actions that may lose at once, so that
        a failed connection does not decide the game.
        """
        return observation.legal_actions

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether an action may lose the game at once, e.g. an accusation.

        Such an action is never taken from a reply that names it in ambiguous prose, and a person
        confirms it.
        """
        return False

    def new_notes(self, player: int) -> Notes:
        """Return empty notes for `player`."""
        return Notes(self, player)

    @property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        """Arrays of an observation by name. Without any, a network cannot play the game."""
        return {}

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return an observation as arrays, with the shapes and dtypes of `array_specs`."""
        return {}


class Notes:
    """Facts that a player derives from its events; a game subclasses it to render observations.

    Only `update` changes it, so a decision costs only as much as the new events.
    """

    def __init__(self, game: ObservedGame, player: int) -> None:
        self.game = game
        self.player = player

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""


class Witnessed:
    """The events that one player has witnessed so far, and its notes of them.

    It grows with the game, and all observations of the player refer to it. The events are a copy,
    so that an agent cannot change the log of the game.
    """

    __slots__ = ("_notes", "_num_noted", "_snapshot", "events", "game", "player")

    def __init__(self, game: ObservedGame, player: int, events: Iterable[Event] = ()) -> None:
        self.game = game
        self.player = player
        self.events = list(events)
        self._notes = game.new_notes(player)
        self._num_noted = 0
        self._snapshot: tuple[Event, ...] = ()

    def first(self, count: int) -> tuple[Event, ...]:
        """Return the first `count` events."""
        # Events are only added, so equal lengths mean equal events.
        if len(self._snapshot) != count:
            self._snapshot = tuple(self.events[:count])
        return self._snapshot

    def notes(self, count: int) -> Notes:
        """Return the notes of the first `count` events."""
        if count < self._num_noted:
            # Notes cannot go back, and these are ahead of an old observation.
            return Witnessed(self.game, self.player, self.events[:count]).notes(count)
        # Only new events: the notes are incremental, so a game costs linear time, not quadratic.
        notes = self._notes
        for event in self.events[self._num_noted : count]:
            notes.update(event)
        self._num_noted = count
        return notes


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observation:
    """The knowledge of one player now: the events that it witnessed and its legal actions.

    An immutable snapshot: later moves do not change it, and nothing in it depends on what is
    hidden from the player. Events, text, notes and arrays are computed on request.
    """

    game: ObservedGame
    player: int
    num_events: int
    """The number of events that the player has witnessed."""
    legal_actions: ActionSet
    _witnessed: Witnessed
    """It may be ahead of this observation."""

    @property
    def events(self) -> tuple[Event, ...]:
        """All events that the player has witnessed, oldest first."""
        return self._witnessed.first(self.num_events)

    def events_since(self, count: int) -> tuple[Event, ...]:
        """Return the events after the first `count`, for a reader who knows those already."""
        return self.events[count:]

    @property
    def notes(self) -> Notes:
        """The game's notes up to this observation. Read-only: do not change them."""
        return self._witnessed.notes(self.num_events)

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
        self.legal_actions.check(action)
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
        legal = self.legal_actions
        return _unpickle, (self.game, self.player, self.events, legal.actions, legal.speech)


def _unpickle(
    game: ObservedGame,
    player: int,
    events: tuple[Event, ...],
    actions: tuple[Action, ...],
    speech: tuple[SpeechOffer, ...] = (),
) -> Observation:
    witnessed = Witnessed(game, player, events)
    legal = game.actions.subset(actions, speech)
    return Observation(game, player, len(events), legal, witnessed)


@cache
def _numbered_names(players: int) -> tuple[str, ...]:
    return tuple(f"Player {seat}" for seat in range(players))
