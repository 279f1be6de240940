"""Base classes of a game: its rules with their options, the facets that it names, its positions.

A `Game` creates the first `State`, the position that play changes. What the game says, knows and
shows are objects of their own, so that the rules import none of them:

- `Text` (`GameText`): rules in words, narration of events, prompts.
- `Analysis` (`GameAnalysis`): exact knowledge, judgements of play, estimates of returns.
- `Arrays` (`GameArrays`): observations as numbers, for networks.
- `View` (`TableView`): the table, drawn in a terminal and in a browser.
- `Talk` (`GameTalk`): which moves are statements, when they are true, and when they are kept.

A game names the class of a facet, or `"module:Class"`, which is imported when it is first used.

A state names the players who must act (`to_act`) and their legal actions (`legal_actions`); `apply`
changes it to the next position. Chance is explicit: when `to_act` is `(CHANCE,)`, the caller draws
with `sample_chance` and applies the draw like any other move. So a finished game is a list of
actions.

Everything that happens is an `Event` with an audience, and the event log is the single source of
truth. An `Observation` consists only of the events that its player has witnessed and of its legal
actions; text and arrays are renderings of these two. A game that follows this rule cannot leak
hidden information.

Simultaneous moves: `to_act` names all players who still have to commit. Their actions are applied
one by one, and no player may witness an event of these moves before the last one has committed.
"""

from __future__ import annotations

import copy
import pkgutil
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from arena.core.action import CHANCE, Action, Speech, Step
from arena.core.action_set import ActionSet, ActionTable
from arena.core.analysis import GameAnalysis, GameTalk
from arena.core.errors import ArenaError, IllegalAction, InvalidAction, UsageError
from arena.core.event import EventLog, ReturnScale
from arena.core.observation import GameArrays, GameText, Observation, ObservedGame, Witnessed
from arena.core.text import explain_options
from arena.core.view import TableView


@dataclass(frozen=True, slots=True)
class ChanceOutcome:
    """One possible result of chance and its probability."""

    action: Action
    probability: float


class State(ABC):
    """A position. Mutable: `apply` changes it; `clone` makes an independent copy."""

    game: ObservedGame
    log: EventLog
    to_act: tuple[int, ...]
    """Players who must act: one, several at once, `(CHANCE,)`, or `()` at the end."""
    turn: int
    """Number of turns that have started, as the game counts turns."""

    def __init__(self, game: ObservedGame) -> None:
        self.game = game
        self.log = EventLog(game.num_players)
        self.turn = 0
        # One per player: notes of one player must never serve another.
        self._witnessed: dict[int, Witnessed] = {}

    @abstractmethod
    def _legal_actions(self, player: int) -> ActionSet:
        """Return the legal actions of `player`, who is one of `to_act`."""

    @abstractmethod
    def _apply(self, player: int, action: Action) -> None:
        """Apply an action that is known to be legal."""

    def _begin_turn(self, *players: int) -> None:
        """Begin the next turn: these players must act, several of them at once."""
        self.to_act = players
        self.turn += 1

    @abstractmethod
    def returns(self) -> tuple[float, ...]:
        """Return what each player has earned so far: finite, one number per player."""

    def reason(self) -> str:
        """Return the reason why the game is over, as text."""
        return "the game is over"

    def roles(self) -> tuple[str, ...]:
        """Return the role of each seat, where the game deals roles and has dealt them; else ()."""
        return ()

    def teams(self) -> tuple[int, ...]:
        """Return the team of each seat, numbered from 0; () if each seat plays for itself.

        As with the roles, a team may be dealt and hidden; members of a team have equal returns.
        """
        return ()

    def is_out(self, player: int) -> bool:
        """Return whether all players know that `player` will not act any more in this game."""
        return self.is_terminal

    @property
    def is_terminal(self) -> bool:
        return not self.to_act

    def legal_actions(self, player: int) -> ActionSet:
        """Return the legal actions of `player` now: none if it is not to act.

        Raises ArenaError if the game lets a player act who has no legal action.
        """
        # Chance has no legal actions; its results are `chance_outcomes`.
        if player == CHANCE or player not in self.to_act:
            return self.game.no_actions
        legal = self._legal_actions(player)
        if not legal:
            raise self._fault(f"player {player} must act and has no legal action; offer a pass")
        return legal

    def _fault(self, what: str) -> ArenaError:
        """Return the error of a game that cannot go on from this position."""
        place = f"in turn {self.turn}, after {len(self.log.events)} events"
        return ArenaError(f"{self.game.name}: {place}, {what}")

    def apply(self, player: int, action: Action) -> None:
        """Apply `action`. Raises IllegalAction, and changes nothing, if it is not legal."""
        if player not in self.to_act:
            raise IllegalAction(f"player {player} is not to act; {list(self.to_act)} are")
        # All checks come before `_apply`, so that a refused action leaves no partial change.
        if player != CHANCE:
            action = self.legal_actions(player).check(action)
        elif not self._is_possible(action):
            raise IllegalAction(f"'{action}' is not allowed now")
        self._apply(player, action)

    def apply_all(self, steps: Iterable[Step]) -> Self:
        """Apply actions in order; return this state. Raises IllegalAction at the first refused."""
        for step in steps:
            self.apply(step.player, step.action)
        return self

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return all results of chance here; their probabilities add up to 1.

        A game with too many of them implements only `sample_chance` and `_is_possible`.
        """
        raise NotImplementedError(f"{self.game.name} does not list its chance outcomes")

    def _is_possible(self, action: Action) -> bool:
        """Return True if this is a possible result of chance here."""
        return any(outcome.action == action for outcome in self.chance_outcomes())

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw one result of chance, by probability."""
        outcomes = self.chance_outcomes()
        if not outcomes:
            raise self._fault("chance must act and has no outcome")
        weights = [outcome.probability for outcome in outcomes]
        # One draw from `rng` per chance move: a replay repeats the draws in the same order.
        return rng.choices(outcomes, weights)[0].action

    def parse(self, text: str) -> Action:
        """Return the action whose `str()` is `text`; results of chance are included.

        Raises InvalidAction or AmbiguousAction.
        """
        if self.to_act != (CHANCE,):
            return self.game.actions.parse(text)
        # Results of chance are not in the table of actions, and only their exact text counts.
        action = self._read_chance(text)
        if action is None or str(action) != text or not self._is_possible(action):
            raise InvalidAction(f"'{text}' is not a possible result of chance here")
        return action

    def _read_chance(self, text: str) -> Action | None:
        """Return the result of chance that a text may name, which `parse` checks; None if none.

        The default compares the text with all results; a game with too many of them reads it.
        """
        outcomes = self.chance_outcomes()
        return next((each.action for each in outcomes if str(each.action) == text), None)

    def observe(self, player: int) -> Observation:
        """Return what `player` may know now."""
        witnessed = self._witnessed.get(player)
        if witnessed is None:
            # Made on first use: most copies of a state are never observed.
            witnessed = self._witnessed[player] = Witnessed(self.game, player)
        # A log only grows, so its first events are known already.
        log = self.log.witnessed[player]
        witnessed.events += log[len(witnessed.events) :]
        return Observation(self.game, player, len(log), self.legal_actions(player), witnessed)

    def clone(self) -> Self:
        """Return an independent copy.

        A game extends it if its states hold mutable values of their own.
        """
        # Immutable values of a state may be shared; the log is the mutable one of every game.
        twin = copy.copy(self)
        twin.log = self.log.copy()
        # Notes are mutable, so they are not shared but computed again.
        twin._witnessed = {}
        return twin

    def __getstate__(self) -> dict[str, Any]:
        # Derived from the log, so a pickle leaves it out.
        return {**self.__dict__, "_witnessed": {}}


class GameOptions(BaseModel):
    """Options of a game: validated and immutable. A game with options has a subclass."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SeatOptions(GameOptions):
    """Options of a game for several numbers of players."""

    players: int


class Game(ABC):
    """The rules of a game with their options. Immutable; equal options make equal games.

    Every observation refers to its game. So a game must not keep values, for example in a cache,
    that depend on hidden information: other players could read them.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type[GameOptions]] = GameOptions
    Text: ClassVar[str | type[GameText]] = GameText
    Analysis: ClassVar[str | type[GameAnalysis]] = GameAnalysis
    Arrays: ClassVar[str | type[GameArrays]] = GameArrays
    View: ClassVar[str | Callable[[Any, int | None], TableView] | None] = None
    """Called with the game and the viewer's seat; the seat is None for a viewer who sees all."""
    Talk: ClassVar[str | type[GameTalk] | None] = None
    speech: ClassVar[tuple[type[Speech], ...]] = ()
    """Kinds of speech of the game. Players who cannot speak, such as networks, have the other
    actions. No action of the table begins with the verb of a kind of speech."""
    options: GameOptions

    def __init__(self, /, **options: JsonValue) -> None:
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
        # Without caches: the bytes depend on the options only.
        return _unpickle, (type(self), self.options.model_dump())

    def __repr__(self) -> str:
        changed = self.options.model_dump(exclude_defaults=True)
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    @property
    def title(self) -> str:
        """Name of the game in headings. A game whose `name` reads badly sets `title = "…"`."""
        return self.name.rpartition("/")[2].replace("_", " ").capitalize()

    @cached_property
    def num_players(self) -> int:
        """Number of seats: the option `players` of `SeatOptions`.

        A game with a fixed number sets `num_players = 2`.
        """
        assert isinstance(self.options, SeatOptions), f"{self.name} does not set num_players"
        return self.options.players

    @property
    def seat_names(self) -> tuple[str, ...]:
        """Display names of the players, by seat."""
        return _numbered_names(self.num_players)

    @property
    def default_bots(self) -> tuple[str, ...]:
        """Names of bots: for seats without an agent, then as the measure of other players.

        Without the second it is the game's first bot. A game whose options do not change them sets
        `default_bots = (…)`.
        """
        return ("random",)

    @property
    def level_bots(self) -> tuple[str, str, str]:
        """Names of the bots of the levels easy, fair and strong, for people who play.

        A game whose options do not change them sets `level_bots = (…)`.
        """
        usual = self.default_bots[0]
        return ("random" if usual == "random" else "easy", usual, usual)

    @property
    def return_scale(self) -> ReturnScale:
        """Name, unit and range of a seat's return, the primary measure of evaluation.

        A game whose options do not change it sets `return_scale = ReturnScale(…)`. Without a range,
        `arena eval` cannot stop at a width of the interval.
        """
        return ReturnScale()

    @property
    def turn_bound(self) -> int | None:
        """Number of turns that no game exceeds by its rules; None if the rules give no bound.

        A game has this bound or `default_max_turns`; the conformance kit checks it.
        """
        return None

    @property
    def default_max_turns(self) -> int | None:
        """Turns after which `play` cuts a game off if the caller gives no limit.

        A game whose options do not change it sets `default_max_turns = 300`.
        """
        return None

    @abstractmethod
    def _all_actions(self) -> Iterable[Action]:
        """Return all actions that any state may offer to a player."""

    @cached_property
    def actions(self) -> ActionTable:
        """All actions of the game, numbered."""
        return ActionTable(self._all_actions(), self.speech)

    @cached_property
    def no_actions(self) -> ActionSet:
        """The empty set of legal actions."""
        return self.actions.subset(()).complete()

    @abstractmethod
    def initial_state(self) -> State:
        """Return the position before the first move."""

    def turn_limit(self, max_turns: int | None = None) -> int | None:
        """Return the number of turns after which a game is truncated; None for no limit.

        Without `max_turns`, it is the game's default. Raises UsageError for a wrong value.
        """
        if max_turns is None:
            return self.default_max_turns
        # `type`, not `isinstance`: True is an int too, but no limit.
        if type(max_turns) is not int or max_turns < 1:
            raise UsageError(f"max_turns={max_turns!r}: give a whole number from 1, or None")
        return max_turns

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

    @cached_property
    def text(self) -> GameText:
        """The facet that words the game."""
        facet: GameText = _loaded(self.Text)(self)
        return facet

    @cached_property
    def analysis(self) -> GameAnalysis:
        """The facet that knows and judges."""
        facet: GameAnalysis = _loaded(self.Analysis)(self)
        return facet

    @cached_property
    def arrays(self) -> GameArrays:
        """The facet that gives observations as arrays."""
        facet: GameArrays = _loaded(self.Arrays)(self)
        return facet

    @cached_property
    def talk(self) -> GameTalk | None:
        """The facet that knows statements; None if the game declares none."""
        return None if self.Talk is None else _loaded(self.Talk)(self)

    def new_view(self, seat: int | None) -> TableView | None:
        """Return a new view of the table for a seat, None for one that sees everything.

        From it come the diagram, the picture in a terminal and the scene in a browser. Without a
        `View`, the viewers have the events only.
        """
        kind = self.view_class()
        return None if kind is None else kind(self, seat)

    @classmethod
    def view_class(cls) -> Callable[[Any, int | None], TableView] | None:
        """Return the class of `new_view`, imported."""
        return None if cls.View is None else _loaded(cls.View)


def _loaded(target: Any) -> Any:
    """Return the class of a facet; `"module:Class"` is imported."""
    return pkgutil.resolve_name(target) if isinstance(target, str) else target


def _unpickle(game: type[Game], options: dict[str, JsonValue]) -> Game:
    return game(**options)


@cache
def _numbered_names(players: int) -> tuple[str, ...]:
    return tuple(f"Player {seat}" for seat in range(players))
