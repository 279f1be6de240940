"""The words that every game speaks: Game, State, Action, Event, Observation, Outcome.

A `Game` holds the rules with their options and makes the first `State`. A state says who must act
(`to_act`), what they may do (`legal_actions`), and moves on by `apply`. Chance is explicit: when
`to_act` is `(CHANCE,)`, somebody draws with `sample_chance` and applies the draw like any other
move, so a finished game is a list of actions.

Whatever happens is an `Event` with an audience, and the event log is the one truth. An
`Observation` is made of nothing but the events that its player has witnessed and the actions that
are legal for it now; text and arrays are renderings of those two. A game that keeps to this
cannot leak what it hides.

Simultaneous moves: `to_act` names all players who still have to commit. They are applied one by
one, and nobody may witness an event of it before the last one has committed.
"""

from __future__ import annotations

import copy
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from arena.core.action import CHANCE, Action, ActionSet, ActionTable, Step
from arena.core.errors import IllegalAction, InvalidAction, UsageError
from arena.core.event import Event, EventLog
from arena.core.json import Json
from arena.core.knowledge import Knowledge
from arena.core.observation import ArraySpec, Notes, NotesCell, Observation, TextLevel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arena.core.assessment import Assessment, Assessor, Comment, Measure


@dataclass(frozen=True, slots=True)
class ChanceOutcome:
    """One result of chance and its probability."""

    action: Action
    probability: float


class State(ABC):
    """A position. Mutable: `apply` moves on; `clone` makes an independent copy."""

    game: Game
    log: EventLog
    to_act: tuple[int, ...]
    """Who must act: one player, several at once, `(CHANCE,)`, or `()` at the end."""
    turn: int
    """How many turns have begun, as the game counts turns."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.log = EventLog(game.num_players)
        self.turn = 0
        self._cells: dict[int, NotesCell] = {}

    @abstractmethod
    def _legal_actions(self, player: int) -> ActionSet:
        """What `player`, who is one of `to_act`, may do."""

    @abstractmethod
    def _apply(self, player: int, action: Action) -> None:
        """Carry out an action that is known to be legal."""

    @abstractmethod
    def returns(self) -> tuple[float, ...]:
        """What each player has earned so far; the result of the game once it is over."""

    def reason(self) -> str:
        """Why the game is over, in words."""
        return "the game is over"

    @property
    def is_terminal(self) -> bool:
        return not self.to_act

    def legal_actions(self, player: int) -> ActionSet:
        """What `player` may do now; empty if it is not to act."""
        if player == CHANCE or player not in self.to_act:
            return self.game.no_actions
        return self._legal_actions(player)

    def apply(self, player: int, action: Action) -> None:
        """Carry out `action`; raises IllegalAction, and changes nothing, if it is not allowed."""
        if player not in self.to_act:
            raise IllegalAction(f"player {player} is not to act; {list(self.to_act)} are")
        if player == CHANCE:
            possible = self._is_possible(action)
        else:
            possible = action in self.legal_actions(player)
        if not possible:
            raise IllegalAction(f"'{action}' is not allowed now")
        self._apply(player, action)

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """All results of chance here; games with too many of them only offer `sample_chance`."""
        raise NotImplementedError(f"{self.game.name} does not list its chance outcomes")

    def _is_possible(self, action: Action) -> bool:
        """Whether chance can bring this about here."""
        return any(outcome.action == action for outcome in self.chance_outcomes())

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw one result of chance."""
        outcomes = self.chance_outcomes()
        weights = [outcome.probability for outcome in outcomes]
        return rng.choices(outcomes, weights)[0].action

    def parse(self, text: str) -> Action:
        """Undo `str(action)` for the actions of this position, chance's own included."""
        if self.to_act == (CHANCE,):
            for outcome in self.chance_outcomes():
                if str(outcome.action) == text:
                    return outcome.action
            raise InvalidAction(f"'{text}' is no result of chance here")
        return self.game.actions.parse(text)

    def observe(self, player: int) -> Observation:
        """What `player` may know now."""
        cell = self._cells.get(player)
        if cell is None:
            cell = self._cells[player] = NotesCell(self.game.new_notes(player))
        legal = self.legal_actions(player)
        return Observation(self.game, player, self.log.witnessed[player], legal, cell)

    def clone(self) -> Self:
        """An independent copy. A game whose states hold mutable values of its own extends it."""
        twin = copy.copy(self)
        twin.log = self.log.copy()
        twin._cells = {}  # Notes are cheap to make again and must not be shared.
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cells": {}}


class GameOptions(BaseModel):
    """Options of a game: validated and immutable. A game with options subclasses it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Game(ABC):
    """The rules with their options. Immutable and hashable; equal options make equal games."""

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type[GameOptions]] = GameOptions
    default_max_turns: ClassVar[int | None] = None
    """Turns after which `play` cuts a game off, unless told otherwise."""
    left_out: ClassVar[str] = "What was said before is left out."
    """Told to a reader whose text had to be shortened."""
    measures: ClassVar[tuple[Measure, ...]] = ()
    """What the `assessor` measures beyond wins and returns."""
    luck: ClassVar[str | None] = None
    """The measure, if any, that says how lucky a seat was, summed over a game. What is used is a
    seat's luck less the others' mean: it should have mean 0, whoever plays, and is checked to."""
    options: GameOptions

    def __init__(self, /, **options: Json) -> None:
        try:
            self.options = self.Options(**options)
        except ValidationError as error:
            raise UsageError(explain_options(self.name, self.Options, error)) from None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Game) and type(self) is type(other) and self.options == other.options
        )

    def __hash__(self) -> int:
        return hash((self.name, self.options))

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle must not carry what a game has cached: other players' choices may be in it.
        return remake, (type(self), self.options.model_dump())

    def __repr__(self) -> str:
        given = self.options.model_dump(exclude_defaults=True)
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"

    @property
    @abstractmethod
    def num_players(self) -> int:
        """Seats; a game with a fixed number says `num_players = 2`."""

    @abstractmethod
    def _all_actions(self) -> Iterable[Action]:
        """Every action that any state may offer a player."""

    @abstractmethod
    def initial_state(self) -> State:
        """The position before anything has happened."""

    @abstractmethod
    def rules(self) -> str:
        """The rules and the notation of actions, for a player who has never heard of them."""

    def narrate(self, event: Event) -> str:
        """One event as a sentence of table talk, as its audience hears it."""
        return str(event)

    @property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        """The arrays of an observation; a game without any can be played, but not by a network."""
        return {}

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """An observation as arrays, shaped as `array_specs` says."""
        return {}

    @cached_property
    def actions(self) -> ActionTable:
        return ActionTable(self._all_actions())

    @cached_property
    def no_actions(self) -> ActionSet:
        return self.actions.subset(())

    @property
    def seat_names(self) -> tuple[str, ...]:
        """What the table calls each player; numbered like seats, from 0."""
        return tuple(f"Player {seat}" for seat in range(self.num_players))

    def new_notes(self, player: int) -> Notes:
        return Notes(self, player)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """What may be played for a player who gives no legal answer; one is drawn at random.

        The default is any legal action. A game in which some of those lose outright leaves them
        out: a fault of the line should not decide the game.
        """
        return observation.legal_actions

    def synonyms(self) -> Mapping[str, str]:
        """Other words that a model's reply may use for the game's own, e.g. `{"knife": "dagger"}`.

        Each phrase is replaced by the words of the game, which stand so in `str(action)`. Case and
        punctuation do not matter, and the longest phrase goes first. A single word that stands for
        a whole action (`{"done": "end turn"}`) counts only where it is the whole answer.
        """
        return {}

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Another history that `player` cannot tell from this one, drawn at random.

        None, the default, says that the game hides nothing. A game that has secrets implements it
        from its rules, so that the conformance kit can look for leaks.
        """
        return None

    def knowledge(self, player: int) -> Knowledge | None:
        """Exact knowledge for a fresh view of `player`; None where a game has no such thing."""
        return None

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> Assessor | None:
        """A fresh judge of one game by exact knowledge; None where a game has no such thing.

        It judges these players, by assessments of these kinds; None stands for all. It computes
        nothing that is not needed for them, so that a reward is cheap. Its `end` changes nothing:
        called before the game is over, it says how things stand. The kind `knowledge`, for each
        player at the end, has the facts `entropy_dealt` and `entropy_end`: how uncertain the player
        was about what is hidden after the deal, and when it last had a say, in bits.
        """
        return None

    def comment(self, assessment: Assessment) -> Comment | None:
        """What a viewer says of an assessment; None where there is nothing to say.

        The default names the kind and the facts, and shows them only where everything is open.
        """
        from arena.core.assessment import Comment

        facts = ", ".join(f"{name} {value}" for name, value in assessment.facts.items())
        return Comment(f"{assessment.kind}: {facts}" if facts else assessment.kind, omniscient=True)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        """An observation in words. The default tells the events and names the legal actions."""
        lines = [] if since else [f"You are {self.seat_names[observation.player]}."]
        lines += [self.narrate(event) for event in observation.events_since(since)]
        if observation.legal_actions:
            lines.append("Your actions: " + " | ".join(map(str, observation.legal_actions)))
        return "\n".join(lines)

    def belief_question(self, observation: Observation) -> str | None:
        """What to ask a player about what is hidden from it; None, the default, is no question."""
        return None

    def score_beliefs(self, answer: str, observation: Observation) -> dict[str, Json]:
        """The answer to `belief_question`, understood, and scored against the exact knowledge."""
        return {}

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        """An observation in fewer words: the first `forget` events are not told one by one.

        The default tells the rest as news. A game that keeps a notebook gives all of it here, at
        the level "events" too: it stands for what is left out.
        """
        name = self.seat_names[observation.player]
        return f"You are {name}. {self.left_out}\n{self.describe(observation, level, forget)}"

    def diagram(self, events: Sequence[Event]) -> str:
        """The table as plain text, drawn from the events that its viewer has witnessed."""
        return ""


def remake(game: type[Game], options: dict[str, Json]) -> Game:
    """Undo the pickling of a game."""
    return game(**options)


def explain_options(name: str, options: type[BaseModel], error: ValidationError) -> str:
    """The first fault of `error` in one line, with what is allowed instead."""
    fault = error.errors()[0]
    field = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = ", ".join(options.model_fields) or "none"
        return f"{name} has no option '{field}'; its options are: {known}"
    message = fault["msg"].removeprefix("Value error, ")
    prefix = f"{name}: option {field}={fault['input']!r}: " if field else f"{name}: "
    return prefix + message[0].lower() + message[1:]
