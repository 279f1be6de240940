"""Roles, their deal, statements and sealed phases: the rules that hidden-role games share.

A game is a sequence of phases. In each phase some players commit an action, in any order, and
no player learns anything before the last one has committed. A phase of one player is the usual
move. So a position is complete with the phase and the commitments of the phase so far.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field

from arena import (
    CHANCE,
    WIN_RATE,
    Action,
    ActionSet,
    Event,
    Game,
    Observation,
    ReturnScale,
    Say,
    Speech,
    SpeechOffer,
    Spoken,
    State,
)
from arena.core.action import Promise, Statement
from arena.core.event import PrivateEvent
from arena.core.game import SeatOptions


@dataclass(frozen=True, slots=True)
class DealRoles(Action):
    """Chance: deal one role to each seat."""

    roles: tuple[str, ...]

    def __str__(self) -> str:
        return f"deal {', '.join(self.roles)}"


@dataclass(frozen=True, slots=True)
class SeatAction(Action):
    """Base of actions that name one player."""

    seat: int


@dataclass(frozen=True, slots=True)
class PassPhase(Action, template="pass"):
    """Do nothing in a phase: make no statement, for example."""


PASS = PassPhase()
SPEAK = SpeechOffer(Say)


@dataclass(frozen=True, slots=True)
class ClaimRole(Statement, template="claim I am {self.role}"):
    """State the own role."""

    role: str


@dataclass(frozen=True, slots=True)
class ClaimSide(Statement, template="claim Player {self.seat} {self.side}"):
    """State the side of a player."""

    seat: int
    side: str


@dataclass(frozen=True, slots=True)
class ClaimCheck(Statement, template="claim checked Player {self.seat} {self.side}"):
    """State that the own role has shown the side of a player."""

    seat: int
    side: str


@dataclass(frozen=True, slots=True)
class Suspect(SeatAction, Statement, template="suspect Player {self.seat}"):
    """State the opinion that a player belongs to the minority."""


@dataclass(frozen=True, slots=True)
class Trust(SeatAction, Statement, template="trust Player {self.seat}"):
    """State the opinion that a player belongs to the majority."""


@dataclass(frozen=True, slots=True)
class PromiseMove(Promise, template="promise {self.move}"):
    """Promise the next move of a kind: a vote, a card."""

    move: str


@dataclass(frozen=True, slots=True)
class RoleDealt(PrivateEvent):
    """Private: the role of one player."""

    role: str


@dataclass(frozen=True, slots=True)
class RolesRevealed(Event):
    """Public: the role of each seat, at the end of the game."""

    roles: tuple[str, ...]


class RoleOptions(SeatOptions):
    """Options that games of hidden roles share."""

    talk: Literal[0, 1, "statements"] = Field(
        1,
        description="1: a round of speech before each vote, in which all players speak at once; 0: "
        "no talk. 'statements': players can also attach statements whose truth is known.",
    )


class HiddenRolesGame(Game, ABC):
    """Game in which each seat has a secret role, and each role belongs to a team."""

    options: RoleOptions
    speech: ClassVar[tuple[type[Speech], ...]] = (Say,)
    team_names: ClassVar[tuple[str, str]]
    """Names of the majority and of the minority."""
    sides: ClassVar[tuple[str, str]]
    """Names of the same teams in statements."""
    minority: ClassVar[frozenset[str]]
    """All roles of the minority, whatever the options."""
    vote: ClassVar[type[SeatAction] | None] = None
    """Kind of the votes against a player; None if the game has none."""
    default_bots = ("deducer", "deducer")

    @property
    @abstractmethod
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat, in a fixed order."""

    def team_of(self, role: str) -> int:
        """Return the team of a role: 0 for the uninformed majority, 1 for the secret minority."""
        return int(role in self.minority)

    @abstractmethod
    def initial_state(self) -> HiddenRolesState:
        """Return the position before the deal."""

    @property
    def seers(self) -> frozenset[str]:
        """Roles that may learn the side of another player."""
        return frozenset()

    @property
    @abstractmethod
    def promised(self) -> tuple[tuple[Action, ...], ...]:
        """Moves that players can promise: tuples of alternatives, one of which is made."""

    def _statements(self) -> Iterator[Statement]:
        """Yield the statements of the option `talk=statements`."""
        if self.options.talk != "statements":
            return
        seats = range(self.num_players)
        yield from map(ClaimRole, self.distinct_roles)
        for kind in (ClaimSide, *([ClaimCheck] if self.seers else [])):
            yield from (kind(seat, side) for seat in seats for side in self.sides)
        yield from map(Suspect, seats)
        yield from map(Trust, seats)
        yield from (PromiseMove(str(move)) for moves in self.promised for move in moves)

    @cached_property
    def talk_actions(self) -> ActionSet:
        """Silence, a statement, or speech."""
        return self.actions.subset((PASS, *self.actions.statements), (SPEAK,)).complete()

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return `pass` where it is legal, so that a failed answer votes for no player."""
        legal = observation.legal_actions
        return (PASS,) if PASS in legal else legal

    @cached_property
    def distinct_roles(self) -> tuple[str, ...]:
        """The roles of the game without repetitions."""
        return tuple(dict.fromkeys(self.role_list))

    @property
    def return_scale(self) -> ReturnScale:
        """The win rate; par is unknown, because the teams are uneven in size and in chances."""
        return replace(WIN_RATE, par="unknown", team_names=self.team_names)

    def team_name(self, role: str) -> str:
        """Return the name of the team of a role."""
        return self.team_names[self.team_of(role)]

    def names_of(self, seats: Sequence[int]) -> str:
        """Return the names of seats, parted by commas; `none` if there are none."""
        names = self.seat_names
        return ", ".join([names[seat] for seat in seats]) or "none"


class HiddenRolesState(State, ABC):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: HiddenRolesGame

    def __init__(self, game: HiddenRolesGame) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.phase = "deal"
        self.dealt: tuple[str, ...] = ()
        """The role of each seat; empty before the deal."""
        self.sealed: dict[int, Action] = {}
        """Commitments of the current phase, by seat."""
        self.winner: int | None = None
        """The team that has won; None before the end."""

    def roles(self) -> tuple[str, ...]:
        """Return the role of each seat; empty before the deal."""
        return self.dealt

    def teams(self) -> tuple[int, ...]:
        """Return the team of each seat; empty before the deal."""
        return tuple(map(self.game.team_of, self.dealt))

    @abstractmethod
    def _start(self) -> None:
        """Begin the game after the deal."""

    @abstractmethod
    def _resolve(self, phase: Mapping[int, Action]) -> None:
        """Carry out a phase other than talk; `phase` is in the order of seats."""

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw a deal; all orders of the roles are equally likely."""
        roles = list(self.game.role_list)
        # One shuffle of a list in a fixed order: the deal of a seed stays the same.
        rng.shuffle(roles)
        return DealRoles(tuple(roles))

    def _is_possible(self, action: Action) -> bool:
        # Equal numbers of each role; the order of the seats is free.
        return isinstance(action, DealRoles) and Counter(action.roles) == Counter(
            self.game.role_list
        )

    def _read_chance(self, text: str) -> Action:
        return DealRoles(tuple(text.removeprefix("deal ").split(", ")))

    def _begin(self, phase: str, players: tuple[int, ...]) -> None:
        self.phase, self.to_act, self.sealed = phase, players, {}

    def _apply(self, player: int, action: Action) -> None:
        if isinstance(action, DealRoles):
            self.dealt = action.roles
            # Each seat witnesses its own role only.
            for seat, role in enumerate(action.roles):
                self.log.append(RoleDealt(seat, role))
            self._start()
            return
        # A commitment is sealed: there is no event before the last player has committed.
        self.sealed = {**self.sealed, player: action}
        self.to_act = tuple(seat for seat in self.to_act if seat != player)
        if not self.to_act:
            phase = dict(sorted(self.sealed.items()))
            self.sealed = {}
            if self.phase == "talk":
                self._log_statements(phase)
                self._begin("vote", tuple(phase))
            else:
                self._resolve(phase)

    def _discuss(self, players: tuple[int, ...]) -> None:
        """Begin the round of statements before a vote; without talk, the vote."""
        self._begin("talk" if self.game.options.talk else "vote", players)

    def _log_statements(
        self, phase: Mapping[int, Action], to: tuple[int, ...] | None = None
    ) -> None:
        """Publish the statements of a phase in the order of the seats, to all or to some seats."""
        for seat, action in phase.items():
            if isinstance(action, Speech):
                self.log.append(Spoken(seat, action.text, to))
            elif isinstance(action, Statement):
                self.log.append(Spoken(seat, f"[{action}]", to))

    def _end(self, winner: int) -> None:
        """End the game: all roles are revealed."""
        self.phase, self.to_act, self.winner = "end", (), winner
        self.log.append(RolesRevealed(self.dealt))

    def returns(self) -> tuple[float, ...]:
        """Return 1 for each member of the team that has won and 0 for the others."""
        # A truncated game has no winner, so it pays nothing.
        if self.winner is None:
            return (0.0,) * self.game.num_players
        return tuple(float(team == self.winner) for team in self.teams())
