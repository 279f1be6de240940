"""Base classes of a game: its rules (`Game`) and its positions (`State`).

A `Game` holds the rules with their options and creates the first `State`. A state names the
players who must act (`to_act`) and their legal actions (`legal_actions`); `apply` changes it to
the next position. Chance is explicit: when `to_act` is `(CHANCE,)`, the caller draws with
`sample_chance` and applies the draw like any other move. So a finished game is a list of actions.

Everything that happens is an `Event` with an audience, and the event log is the single source of
truth. An `Observation` consists only of the events that its player has witnessed and of its legal
actions; text and arrays are renderings of these two. A game that follows this rule cannot leak
hidden information.

Simultaneous moves: `to_act` names all players who still have to commit. Their actions are applied
one by one, and no player may witness an event of these moves before the last one has committed.
"""

from __future__ import annotations

import copy
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from arena.core.action import CHANCE, Action, ActionValues, Step
from arena.core.action_set import ActionSet
from arena.core.errors import IllegalAction, InvalidAction, UsageError
from arena.core.event import Event, EventLog
from arena.core.knowledge import Knowledge
from arena.core.observation import Observation, ObservedGame, Witnessed
from arena.core.outcome import ReturnScale
from arena.core.prompting import CombinedMove, PromptExample
from arena.core.text import explain_options
from arena.core.views.html_table import html_table
from arena.core.views.tabletop import TableView, draw_tabletop

if TYPE_CHECKING:
    from arena.core.assessment import Assessment, Assessor, Comment, Fact, Measure
    from arena.core.batch.state_batch import StateBatch


@dataclass(frozen=True, slots=True)
class ChanceOutcome:
    """One possible result of chance and its probability."""

    action: Action
    probability: float


class State(ABC):
    """A position. Mutable: `apply` changes it; `clone` makes an independent copy."""

    game: Game
    log: EventLog
    to_act: tuple[int, ...]
    """Players who must act: one, several at once, `(CHANCE,)`, or `()` at the end."""
    turn: int
    """Number of turns that have started, as the game counts turns."""

    def __init__(self, game: Game) -> None:
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
        """Return the legal actions of `player` now: none if it is not to act."""
        # Chance has no legal actions; its results are `chance_outcomes`.
        if player == CHANCE or player not in self.to_act:
            return self.game.no_actions
        return self._legal_actions(player)

    def apply(self, player: int, action: Action) -> None:
        """Apply `action`. Raises IllegalAction, and changes nothing, if it is not legal."""
        if player not in self.to_act:
            raise IllegalAction(f"player {player} is not to act; {list(self.to_act)} are")
        # All checks come before `_apply`, so that a refused action leaves no partial change.
        if player != CHANCE:
            self.legal_actions(player).check(action)
        elif not self._is_possible(action):
            raise IllegalAction(f"'{action}' is not allowed now")
        self._apply(player, action)

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
        weights = [outcome.probability for outcome in outcomes]
        # One draw from `rng` per chance move: a replay repeats the draws in the same order.
        return rng.choices(outcomes, weights)[0].action

    def parse(self, text: str) -> Action:
        """Return the action whose `str()` is `text`; results of chance are included.

        Raises InvalidAction or AmbiguousAction.
        """
        # Results of chance are not in the table of actions, and only their exact text counts.
        if self.to_act == (CHANCE,):
            for outcome in self.chance_outcomes():
                if str(outcome.action) == text:
                    return outcome.action
            raise InvalidAction(f"'{text}' is not a possible result of chance here")
        return self.game.actions.parse(text)

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


class Game(ObservedGame):
    """The rules of a game with their options. Immutable; equal options make equal games.

    Every observation refers to its game. So a game must not keep values, for example in a cache,
    that depend on hidden information: other players could read them.
    """

    summary: ClassVar[str]
    Options: ClassVar[type[GameOptions]] = GameOptions
    default_max_turns: ClassVar[int | None] = None
    """Turns after which `play` cuts a game off if the caller gives no limit."""
    default_opponent: ClassVar[str | None] = None
    """Name of the bot that other players are measured against; None: the game's first bot."""
    default_bot: ClassVar[str | None] = None
    """Name of the bot that takes seats for which no agent is given; None: `random`."""
    facts: ClassVar[Mapping[str, Fact]] = {}
    """Descriptions of the facts of its assessments, by name."""
    measures: ClassVar[tuple[Measure, ...]] = ()
    """Measures of the `assessor`, beyond wins and returns."""
    team_names: ClassVar[tuple[str, ...]] = ()
    """Names of the teams by number, as in "the return as NAME"; () if they need none."""
    has_winner: ClassVar[bool] = True
    """False for a game of one team, which earns a score and is not won."""
    combined_move: ClassVar[CombinedMove | None] = None
    """A form of reply that decides a whole turn; None if the game has none."""
    options: GameOptions

    def __init__(self, /, **options: JsonValue) -> None:
        try:
            self.options = self.Options(**options)
        except ValidationError as error:
            raise UsageError(explain_options(self.name, self.Options, error)) from None

    def completed(self, stored: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the stored options of a game, with the defaults of those that are not stored.

        So options of an earlier version, which had fewer of them, compare with the present ones.
        Options that are not valid any more are returned as they are.
        """
        try:
            options: dict[str, JsonValue] = self.Options(**stored).model_dump(mode="json")
        except ValidationError:
            return dict(stored)
        return options

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

    def _repr_html_(self) -> str:
        """Return the game for a notebook: its options and their meaning."""
        about = {name: field.description for name, field in type(self.options).model_fields.items()}
        values = self.options.model_dump(mode="json").items()
        rows = [(name, str(value), about.get(name) or "") for name, value in values]
        seats, range_text = f"{self.num_players} players", self.return_scale.range_text
        facts = [seats, f"{self.return_scale.name}: {range_text}"]
        return html_table(self.name, ("option", "value", "meaning"), rows, facts)

    @property
    def return_scale(self) -> ReturnScale:
        """Name, unit and range of a seat's return, the primary measure of evaluation.

        A game whose options do not change it sets `return_scale = ReturnScale(…)`. Without a range,
        `arena eval` cannot stop at a width of the interval.
        """
        return ReturnScale()

    @property
    def declared_sum(self) -> float | None:
        """Sum of the returns of all seats at the end, if the rules fix it; None otherwise."""
        return None

    @property
    def par(self) -> float | None:
        """Win rate of equal players if no game is drawn; reports print it beside win rates.

        By default 1 / players. A game of teams sets its own; None means that it is unknown, as
        where one of two uneven teams has the better chances.
        """
        return 1 / self.num_players

    @abstractmethod
    def initial_state(self) -> State:
        """Return the position before the first move."""

    def new_batch(self, size: int) -> StateBatch | None:
        """Return `size` games that are played at once on arrays; None if not implemented.

        Games of few positions return a `TabulatedBatch`. Without one, the vectorised environment
        plays game by game.
        """
        return None

    @cached_property
    def no_actions(self) -> ActionSet:
        """The empty set of legal actions."""
        return self.actions.subset(()).complete()

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

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw another history that `player` cannot distinguish from this one.

        The default, None, means that the game hides nothing. A game with hidden information
        implements it from its rules, so that the conformance kit can search for leaks.
        """
        return None

    def examples(self) -> Sequence[PromptExample]:
        """Return examples of good decisions for prompts, the most useful first; by default none."""
        return ()

    def knowledge(self, player: int) -> Knowledge | None:
        """Return exact knowledge of `player` before the first event; None if not implemented."""
        return None

    def action_values(self, state: State, actions: Collection[Action]) -> ActionValues | None:
        """Estimate the returns after actions of the first of `state.to_act`; None: no estimate.

        Evaluation takes luck out with it: any fixed function of the whole position is valid.
        """
        return None

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> Assessor | None:
        """Return a new assessor of one game by exact knowledge; None if not implemented.

        It computes only what these players and kinds of assessments need, so that a reward is
        cheap; None means all. Its `end` changes nothing and may be called before the game is over.
        The kind `knowledge`, for each player at the end, has the facts `entropy_dealt` and
        `entropy_end`: the player's uncertainty about the hidden information, in bits, after the
        deal and at its last decision.
        """
        return None

    def new_view(self, seat: int | None) -> TableView | None:
        """Return a new view of the table for a seat, None for one that sees everything.

        From it come the diagram, the picture in a terminal and the scene in a browser. The default,
        None, leaves the viewers with the events.
        """
        return None

    def diagram(self, events: Sequence[Event]) -> str:
        """Return the table as plain text, from the events that its viewer has witnessed."""
        # For the text it makes no difference which seat looks: the view knows these events only.
        table = draw_tabletop(self, events, None)
        return table.text() if table else ""

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return an assessment as text for a viewer; None if there is nothing to report.

        The default lists the kind and the facts, for viewers that see everything only.
        """
        from arena.core.assessment import Comment

        facts = ", ".join(f"{name} {value}" for name, value in assessment.facts.items())
        return Comment(f"{assessment.kind}: {facts}" if facts else assessment.kind, omniscient=True)


def _unpickle(game: type[Game], options: dict[str, JsonValue]) -> Game:
    return game(**options)
