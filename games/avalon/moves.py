"""Actions and events of Avalon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from arena import Action, Event


@dataclass(frozen=True, slots=True)
class Propose(Action):
    """Propose the team of the mission; seats are in ascending order."""

    seats: tuple[int, ...]

    def __str__(self) -> str:
        return f"propose {', '.join(f'Player {seat}' for seat in self.seats)}"


@dataclass(frozen=True, slots=True)
class VoteOnTeam(Action):
    """Approve or reject the proposed team, sealed until all have voted."""

    approves: bool

    def __str__(self) -> str:
        return "approve" if self.approves else "reject"


@dataclass(frozen=True, slots=True)
class PlayCard(Action):
    """Play a mission card face down; only evil members may play `fail`."""

    fails: bool

    def __str__(self) -> str:
        return "fail" if self.fails else "success"


@dataclass(frozen=True, slots=True)
class Assassinate(Action):
    """Name the seat of Merlin, as the Assassin after three missions that succeeded."""

    seat: int

    def __str__(self) -> str:
        return f"assassinate Player {self.seat}"


APPROVE, REJECT = VoteOnTeam(True), VoteOnTeam(False)
SUCCESS, FAIL = PlayCard(False), PlayCard(True)


@dataclass(frozen=True, slots=True)
class SecretSeen(Event):
    """Private: the seats that a role sees after the deal.

    `evil`: these seats are evil (all that this role sees). `merlin`: one of these seats is Merlin.
    """

    player: int
    seats: tuple[int, ...]
    kind: Literal["evil", "merlin"]

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


@dataclass(frozen=True, slots=True)
class TeamProposed(Event):
    """Public: the proposal of a leader."""

    leader: int
    mission: int
    """Number of the mission, from 1."""
    attempt: int
    """Number of the proposal for this mission, from 1."""
    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TeamVoted(Event):
    """Public: all votes on a team, after the last one."""

    votes: tuple[bool, ...]
    """True is approval; one per seat."""
    approved: bool


@dataclass(frozen=True, slots=True)
class MissionCardPlayed(Event):
    """Private: the own mission card, after the last member has played."""

    player: int
    fails: bool

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


@dataclass(frozen=True, slots=True)
class MissionEnded(Event):
    """Public: the result of a mission. It is not public who played which card."""

    mission: int
    seats: tuple[int, ...]
    fails: int
    """Number of `fail` cards."""
    succeeded: bool


@dataclass(frozen=True, slots=True)
class EvilRevealed(Event):
    """Public: the evil players, who reveal themselves before the Assassin names Merlin."""

    seats: tuple[int, ...]
    assassin: int


@dataclass(frozen=True, slots=True)
class MerlinGuessed(Event):
    """Public: the Assassin's guess."""

    assassin: int
    target: int
    correct: bool
