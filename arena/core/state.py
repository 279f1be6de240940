"""Base class of the positions of a game.

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
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from arena.core.action import CHANCE, Action, Step
from arena.core.action_set import ActionSet
from arena.core.errors import ArenaError, IllegalAction, InvalidAction
from arena.core.event import EventLog
from arena.core.observation import Observation, ObservedGame, Witnessed


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
