"""Roles, their deal and silence: what rules, knowledge and texts of hidden-role games share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from arena import Action, Event, Game, Say, SpeechOffer


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


class HiddenRolesBase(Game, ABC):
    """Game in which each seat has a secret role, and each role belongs to a team."""

    @property
    @abstractmethod
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat, in a fixed order."""

    @abstractmethod
    def team_of(self, role: str) -> int:
        """Return the team of a role: 0 for the uninformed majority, 1 for the secret minority."""

    @property
    def par(self) -> float | None:
        """Unknown: the teams are uneven in size and in chances."""
        return None

    @cached_property
    def distinct_roles(self) -> tuple[str, ...]:
        """The roles of the game without repetitions."""
        return tuple(dict.fromkeys(self.role_list))

    @cached_property
    def minority_roles(self) -> frozenset[str]:
        """The roles of team 1."""
        return frozenset(role for role in self.role_list if self.team_of(role) == 1)

    def names_of(self, seats: Sequence[int]) -> str:
        """Return the names of seats, parted by commas; `nobody` for none."""
        names = self.seat_names
        return ", ".join([names[seat] for seat in seats]) or "nobody"
