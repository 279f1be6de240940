"""Options and roles of Avalon, the printed tables of teams, actions and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from arena import Action, Event
from arena.core.event import PrivateEvent
from games.hidden_roles.game import RoleOptions, SeatAction

GOOD, EVIL = 0, 1
"""Numbers of the teams."""

SERVANT, MINION = "Loyal Servant", "Minion"
MERLIN, PERCIVAL = "Merlin", "Percival"
ASSASSIN, MORGANA, MORDRED, OBERON = "Assassin", "Morgana", "Mordred", "Oberon"
ROLES = (MERLIN, PERCIVAL, SERVANT, ASSASSIN, MORGANA, MORDRED, OBERON, MINION)
EVIL_ROLES = (ASSASSIN, MORGANA, MORDRED, OBERON, MINION)

NUM_EVIL = {5: 2, 6: 2, 7: 3, 8: 3, 9: 3, 10: 4}
"""Evil players by the number of players, from the rule book."""
TEAM_SIZES = {
    5: (2, 3, 2, 3, 3),
    6: (2, 3, 4, 3, 4),
    7: (2, 3, 3, 4, 4),
    8: (3, 4, 4, 5, 5),
    9: (3, 4, 4, 5, 5),
    10: (3, 4, 4, 5, 5),
}
"""Members of the team of each mission, by the number of players, from the rule book."""

STANDARD = {
    5: "percival+morgana",
    6: "percival+morgana",
    7: "percival+morgana+oberon",
    8: "percival+morgana",
    9: "percival+morgana+mordred",
    10: "percival+morgana+mordred+oberon",
}
"""Special roles beside Merlin and the Assassin that are common at each number of players."""

MAX_PROPOSALS = 5
"""Rejected proposals of one mission after which evil wins."""


class AvalonOptions(RoleOptions):
    """Options of `avalon`."""

    players: int = Field(5, ge=5, le=10, description="Number of seats.")
    roles: str = Field(
        "standard",
        description="Special roles, joined by '+', of merlin, percival, morgana, mordred, oberon; "
        "with merlin comes the assassin. 'standard': the usual set for the number of players; "
        "'none': The Resistance, without special roles.",
    )
    talk: Literal[0, 1, 2, 3, "statements"] = Field(
        1,
        description="Rounds of speech before each vote; all players speak at once. 'statements': "
        "one round, in which players can also attach statements whose truth is known.",
    )
    lady: bool = Field(
        False,
        description="Lady of the Lake: after the missions 2, 3 and 4, her holder learns in secret "
        "whether one player is evil, who then holds her. Usual from 7 players on.",
    )

    @property
    def special_roles(self) -> tuple[str, ...]:
        """The special roles in the fixed order of this module, the Assassin included."""
        names = {"standard": f"merlin+{STANDARD[self.players]}", "none": ""}
        chosen = names.get(self.roles, self.roles).casefold().split("+")
        if "merlin" in chosen:
            chosen.append("assassin")
        known = (MERLIN, PERCIVAL, ASSASSIN, MORGANA, MORDRED, OBERON)
        return tuple(role for role in known if role.casefold() in chosen)

    @model_validator(mode="after")
    def _check_roles(self) -> Self:
        if self.roles in ("standard", "none"):
            return self
        chosen = self.roles.casefold().split("+")
        selectable = ("merlin", "percival", "morgana", "mordred", "oberon")
        unknown = [name for name in chosen if name not in selectable]
        if unknown or len(set(chosen)) < len(chosen):
            fault = f"'{unknown[0][:40]}' is no special role" if unknown else "a role comes twice"
            raise ValueError(f"roles: {fault}; join some of {', '.join(selectable)} by '+'")
        # These three roles do nothing but hide or show Merlin.
        if "merlin" not in chosen and chosen != ["oberon"]:
            raise ValueError(f"roles: '{self.roles}' needs merlin, too")
        evil = [role for role in self.special_roles if role in EVIL_ROLES]
        if len(evil) > NUM_EVIL[self.players]:
            raise ValueError(
                f"roles: {', '.join(evil)} are {len(evil)} evil roles, but {self.players} players "
                f"have {NUM_EVIL[self.players]}; leave some out"
            )
        return self


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
class Assassinate(SeatAction, template="assassinate Player {self.seat}"):
    """Name the seat of Merlin, as the Assassin after three missions that succeeded."""


@dataclass(frozen=True, slots=True)
class Examine(SeatAction, template="examine Player {self.seat}"):
    """Learn the side of a player, as the holder of the Lady of the Lake."""


APPROVE, REJECT = VoteOnTeam(True), VoteOnTeam(False)
SUCCESS, FAIL = PlayCard(False), PlayCard(True)


@dataclass(frozen=True, slots=True)
class SecretSeen(PrivateEvent):
    """Private: the seats that a role sees after the deal.

    `evil`: these seats are evil (all that this role sees). `merlin`: one of these seats is Merlin.
    """

    seats: tuple[int, ...]
    kind: Literal["evil", "merlin"]


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
class MissionCardPlayed(PrivateEvent):
    """Private: the own mission card, after the last member has played."""

    fails: bool


@dataclass(frozen=True, slots=True)
class MissionEnded(Event):
    """Public: the result of a mission. It is not public who played which card."""

    mission: int
    seats: tuple[int, ...]
    fails: int
    """Number of `fail` cards."""
    succeeded: bool


@dataclass(frozen=True, slots=True)
class LadyPassed(Event):
    """Public: the holder of the Lady of the Lake examines a player, who holds her from now on."""

    holder: int
    seat: int


@dataclass(frozen=True, slots=True)
class LoyaltySeen(PrivateEvent):
    """Private: the side of the player that the holder of the Lady of the Lake examined."""

    seat: int
    is_evil: bool


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
