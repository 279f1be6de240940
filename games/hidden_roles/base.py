"""Roles, their deal and silence: what rules, knowledge and texts of hidden-role games share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from arena import WIN_RATE, Action, Event, Game, GameOptions, ReturnScale, Say, Speech, SpeechOffer
from arena.core.analysis import Fact


@dataclass(frozen=True, slots=True)
class DealRoles(Action):
    """Chance: deal one role to each seat."""

    roles: tuple[str, ...]

    def __str__(self) -> str:
        return f"deal {', '.join(self.roles)}"


@dataclass(frozen=True, slots=True)
class PassPhase(Action):
    """Do nothing in a phase: make no statement, for example."""

    def __str__(self) -> str:
        return "pass"


PASS = PassPhase()
SPEAK = SpeechOffer(Say)


@dataclass(frozen=True, slots=True)
class RoleDealt(Event):
    """Private: the role of one player."""

    player: int
    role: str

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


@dataclass(frozen=True, slots=True)
class RolesRevealed(Event):
    """Public: the role of each seat, at the end of the game."""

    roles: tuple[str, ...]


ROLE_FACTS: Mapping[str, Fact] = {
    "probability": Fact("probability", "exact probability, in this seat's view, of what it chose"),
    "best": Fact("probability", "the highest such probability of a legal choice", True),
    "entropy_dealt": Fact("bits", "uncertainty about the roles after the deal", True),
    "entropy_end": Fact("bits", "uncertainty about the roles at the end, before they are shown"),
}


class HiddenRolesOptions(GameOptions):
    """Options that games of hidden roles share."""

    players: int


class HiddenRolesBase(Game, ABC):
    """Game in which each seat has a secret role, and each role belongs to a team.

    Rules, texts and bots of a game share a subclass of it without the modules that import them.
    """

    options: HiddenRolesOptions
    speech: ClassVar[tuple[type[Speech], ...]] = (Say,)
    team_names: ClassVar[tuple[str, str]]
    """Names of the majority and of the minority."""
    default_bots = ("deducer", "deducer")

    @cached_property
    def num_players(self) -> int:
        """Number of seats."""
        return self.options.players

    @property
    @abstractmethod
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat, in a fixed order."""

    @abstractmethod
    def team_of(self, role: str) -> int:
        """Return the team of a role: 0 for the uninformed majority, 1 for the secret minority."""

    @cached_property
    def distinct_roles(self) -> tuple[str, ...]:
        """The roles of the game without repetitions."""
        return tuple(dict.fromkeys(self.role_list))

    @cached_property
    def minority_roles(self) -> frozenset[str]:
        """The roles of team 1."""
        return frozenset(role for role in self.role_list if self.team_of(role) == 1)

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
