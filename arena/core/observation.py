"""Observations: the part of a game that one player may know, as events, text and arrays.

`Observation` holds events and legal actions. Two facets of the game render it: `GameText` in words
and `GameArrays` as numbers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from pydantic import JsonValue

from arena.core.action import Action, SpeechOffer
from arena.core.action_set import ActionSet, ActionTable
from arena.core.event import Event
from arena.core.text import neutralise
from arena.core.view import TableView

if TYPE_CHECKING:
    import numpy as np
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
    """The part of a `Game` that its observations, texts and positions use."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @property
    def num_players(self) -> int: ...
    @property
    def seat_names(self) -> tuple[str, ...]: ...
    @property
    def actions(self) -> ActionTable: ...
    @property
    def no_actions(self) -> ActionSet: ...
    def fallback_actions(self, observation: Observation) -> Sequence[Action]: ...
    def is_irrevocable(self, action: Action) -> bool: ...
    def new_view(self, seat: int | None) -> TableView | None: ...
    def __hash__(self) -> int: ...
    @property
    def text(self) -> GameText: ...
    @property
    def arrays(self) -> GameArrays: ...


class Notes:
    """Facts that a viewer derives from its events; a game subclasses it to render observations.

    The viewer is the player of a seat, or -1 for one who sees everything. Only `update` changes the
    notes, so a decision costs only as much as the new events.
    """

    def __init__(self, game: ObservedGame, player: int) -> None:
        self.game = game
        self.player = player

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""


class NotesView:
    """Base of a table (`TableView`) that shows the notes of its viewer; a game adds `tabletop`."""

    notes_type: ClassVar[Callable[..., Notes]]
    """Class of the notes; called with the game and the viewer."""

    def __init__(self, game: ObservedGame, seat: int | None) -> None:
        self.game: Any = game
        self.seat = seat
        self.notes: Any = type(self).notes_type(game, -1 if seat is None else seat)

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self.notes.update(event)


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
        self._notes: Notes | None = None
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
        if self._notes is None:
            # Made on first use: whoever reads only events or actions needs no notes.
            self._notes = self.game.text.new_notes(self.player)
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
    def notes(self) -> Any:
        """The game's `Notes` up to this observation. Read-only: do not change them."""
        return self._witnessed.notes(self.num_events)

    def text(self, level: TextLevel = "notes", since: int = 0, forget: int = 0) -> str:
        """Return the situation in words, without the control tokens of chat templates.

        Args:
            level: Amount of help, see `TextLevel`.
            since: Return only what is new after this number of events.
            forget: Return the whole situation, with the first events (this many) summarised.
        """
        # Omitted events are summarised, so the text starts from the beginning and `since` has no
        # meaning.
        if forget:
            return neutralise(self.game.text.summarise(self, level, forget))
        return neutralise(self.game.text.describe(self, level, since))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the situation as arrays, with the shapes of `game.arrays.specs`."""
        return self.game.arrays.read(self)

    def parse(self, text: str) -> Action:
        """Return the legal action that `text` names.

        Raises ActionError if the text names no action, several, or one that is not legal now.
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


@dataclasses.dataclass(frozen=True, slots=True)
class FirstGame:
    """A guided game for people: its deal is fixed, and hints explain their first turns."""

    options: Mapping[str, JsonValue]
    hints: tuple[tuple[str, str], ...]
    """Pairs of the verb of an action and a text. In each turn, the first pair that was not shown
    yet and whose action is legal is shown."""
    seed: int = 1
    level: Literal["easy", "fair", "strong"] = "easy"
    """Strength of the other players."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlayGuide:
    """Rules for people in four short parts, at most one screen. They name no player by number."""

    goal: str
    turn: str
    """Description of a player's turn."""
    end: str
    example: str
    """A few moves, and what follows from them."""
    first_game: FirstGame | None = None


class GameText:
    """Facet of a game: its words for models and people. Each method has a default.

    All texts are made from the events that their reader has witnessed, so they cannot leak.
    """

    omission_notice: ClassVar[str] = "What was said before is left out."
    """Text for a reader whose earlier messages had to be removed."""
    kept_events: ClassVar[tuple[type[Event], ...]] = ()
    """Events that a summary narrates, although they are among the omitted ones."""
    notes_type: ClassVar[Callable[..., Notes]] = Notes
    """Class of `new_notes`; called with the game and the seat."""
    table_shows_notes: ClassVar[bool] = False
    """The table (`TableView`) shows all that the notes of the level "notes" say. A person then
    reads them there only."""
    game: ObservedGame

    def __init__(self, game: ObservedGame) -> None:
        self.game = game

    def rules(self) -> str:
        """Return the rules and the notation of actions, for a player who does not know the game.

        The default has the game's summary and its first action.
        """
        about = f"{self.game.name}, {self.game.num_players} players: {self.game.summary}."
        example = next(iter(self.game.actions), None)
        return about if example is None else f"{about}\nYour action, for example: {example}"

    def guide(self) -> PlayGuide | None:
        """Return the rules for people, which are no part of a prompt; None: `rules` must do."""
        return None

    def rule_details(self) -> str:
        """Return sentences that make the rules precise, for models; by default none."""
        return ""

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence, for its audience."""
        return str(event)

    def for_people(self, text: str) -> str:
        """Return a text of the game with words in place of its codes; by default as it is."""
        return text

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        """Return an observation as text. The default: the events, then the `situation`."""
        lines = [] if since else [self._introduction(observation)]
        lines += [self.narrate(event) for event in observation.events_since(since)]
        lines += self.situation(observation, level)
        return "\n".join(lines)

    def _introduction(self, observation: Observation) -> str:
        """Return the first line of a text that starts from the beginning."""
        return f"You are {self.game.seat_names[observation.player]}."

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        """Return the lines after the events: the notes of this level, and the legal actions.

        The default has the legal actions only.
        """
        legal = observation.legal_actions
        return [f"Your actions: {' | '.join(legal.notations())}"] if legal else []

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        """Return an observation as shorter text, without a list of the first `forget` events.

        The default narrates `kept_events` and the later events, with notes at the level "events"
        too, because they replace the omitted events.
        """
        shown: TextLevel = "notes" if level == "events" else level
        lines = [f"{self._introduction(observation)} {self.omission_notice}"]
        omitted = observation.events[:forget]
        lines += [self.narrate(event) for event in omitted if isinstance(event, self.kept_events)]
        return "\n".join((*lines, self.describe(observation, shown, forget)))

    def new_notes(self, player: int) -> Notes:
        """Return empty notes for `player`."""
        return type(self).notes_type(self.game, player)

    def synonyms(self) -> Mapping[str, str]:
        """Return other words for the game's own in replies of models, e.g. `{"knife": "dagger"}`.

        The reader replaces each key by its value, which is a part of some `str(action)`. Case and
        punctuation are ignored, and longer keys are replaced first. A single word that means a
        whole action (`{"done": "end turn"}`) counts only if it is the whole answer. A word with an
        empty value is skipped.
        """
        return {}

    def labels(self, observation: Observation) -> Mapping[str, Action]:
        """Return further texts of the legal actions, as the prompt shows them; by default none."""
        return {}

    def belief_question(self, observation: Observation) -> str | None:
        """Return a question to a player about hidden information; the default is None."""
        return None

    def read_beliefs(self, answer: str, observation: Observation) -> dict[str, JsonValue]:
        """Return what an answer to `belief_question` states, for the details of the decision."""
        return {}


class GameArrays:
    """Facet of a game: its observations as arrays. Without `specs`, no network can play it."""

    game: ObservedGame

    def __init__(self, game: ObservedGame) -> None:
        self.game = game

    @property
    def specs(self) -> Mapping[str, ArraySpec]:
        """Arrays of an observation by name."""
        return {}

    @functools.cached_property
    def _record(self) -> NDArray[np.void]:
        """The arrays of `specs`, one after another, as one record with all values 0."""
        import numpy as np  # Imported late: listing the games must stay fast.

        # Aligned, so that values of longer types begin where the processor expects them.
        fields = [(name, spec.dtype, spec.shape) for name, spec in self.specs.items()]
        return np.zeros((), np.dtype(fields, align=True))

    @functools.cached_property
    def _offsets(self) -> dict[str, int]:
        """The first byte of each array in a block of bytes, see `_from_block`."""
        fields = self._record.dtype.fields
        assert fields is not None, "the game has no arrays"
        return {name: field[1] for name, field in fields.items()}

    @functools.cached_property
    def _seat_blocks(self) -> tuple[bytes, ...]:
        """A block of zeros for each player, with a 1 in the array `player`, which begins it."""
        size, seats = self._record.nbytes, range(self.game.num_players)
        return tuple(bytes(seat) + b"\1" + bytes(size - seat - 1) for seat in seats)

    def _from_block(self, block: bytearray) -> dict[str, NDArray[Any]]:
        """Return the arrays of `specs` in this block of bytes, which they use without a copy.

        The block has them one after another, of dtype int8. Bytes are filled faster than elements
        of an array, and to take the fields of a record is faster than to make arrays.
        """
        zeros = self._record
        record = type(zeros)((), zeros.dtype, block)
        return {name: record[name] for name in self.specs}

    def _zeros(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of `specs` with all values 0, to be filled by `read`."""
        return self._from_block(bytearray(self._record.nbytes))

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return an observation as arrays, with the shapes and dtypes of `specs`."""
        return {}
