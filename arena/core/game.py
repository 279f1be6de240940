"""Base class of a game: its rules with their options, and the facets that it names.

A `Game` creates the first `State`, the position that play changes. What the game says, knows and
shows are objects of their own, so that the rules import none of them:

- `Text` (`GameText`): rules in words, narration of events, prompts.
- `Analysis` (`GameAnalysis`): exact knowledge, judgements of play, estimates of returns.
- `Arrays` (`GameArrays`): observations as numbers, for networks.
- `View` (`TableView`): the table, drawn in a terminal and in a browser.
- `Talk` (`GameTalk`): which moves are statements, when they are true, and when they are kept.

A game names the class of a facet, or `"module:Class"`, which is imported when it is first used.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from arena.core.action import Action, Speech
from arena.core.action_set import ActionSet, ActionTable
from arena.core.analysis import GameAnalysis
from arena.core.errors import UsageError
from arena.core.observation import GameArrays, GameText, Observation
from arena.core.outcome import ReturnScale
from arena.core.state import State
from arena.core.statements import GameTalk
from arena.core.text import explain_options
from arena.core.view import TableView


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
