"""Options and roles of Werewolf, its actions and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from arena import Action, Event
from arena.core.event import PrivateEvent
from games.hidden_roles.game import RoleOptions, SeatAction

VILLAGE, WOLVES = 0, 1
"""Numbers of the teams."""

WOLF, SEER, DOCTOR, HUNTER, VILLAGER = "Werewolf", "Seer", "Doctor", "Hunter", "Villager"
WITCH = "Witch"
ROLES = (WOLF, SEER, DOCTOR, WITCH, HUNTER, VILLAGER)
PACK = frozenset({WOLF})
"""The roles of the wolves' team."""


class WerewolfOptions(RoleOptions):
    """Options of `werewolf`."""

    players: int = Field(7, ge=5, le=12, description="Number of seats.")
    wolves: int = Field(
        0,
        ge=0,
        le=5,
        description="Werewolves, fewer than half of the players. 0: 1 of up to 6 players, 2 of 7 "
        "to 9 and 3 of more.",
    )
    hunter: bool = Field(
        False, description="One villager is the hunter, who may shoot a player when dying."
    )
    witch: bool = Field(
        False,
        description="The witch takes the doctor's place: once she may save the victim of a night, "
        "once poison a player.",
    )
    plain: bool = Field(False, description="There is no seer and no doctor.")
    quiet_first_night: bool = Field(
        False, description="The werewolves do not kill in the first night."
    )
    open_votes: bool = Field(
        False, description="By day players vote one after the other, and all see each vote at once."
    )
    run_off: bool = Field(
        False, description="A tie by day is followed by one more vote, among the tied players only."
    )
    reveal: bool = Field(True, description="The role of a player who dies becomes public.")
    talk: Literal[0, 1, 2, 3, "statements"] = Field(
        1,
        description="Rounds of speech each day, in which all living players speak at once; with "
        "any, the wolves also talk once each night among themselves. 0: no talk. 'statements': one "
        "round, in which players can also attach statements whose truth is known.",
    )

    @property
    def num_wolves(self) -> int:
        """Number of werewolves."""
        return self.wolves or 1 + (self.players >= 7) + (self.players >= 10)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the game, one per seat."""
        helpers = () if self.plain else (SEER, WITCH if self.witch else DOCTOR)
        special = (*helpers, *([HUNTER] if self.hunter else []))
        villagers = self.players - self.num_wolves - len(special)
        return (*[WOLF] * self.num_wolves, *special, *[VILLAGER] * villagers)

    @model_validator(mode="after")
    def _check_wolves(self) -> Self:
        # Otherwise the wolves have won before the first night.
        if 2 * self.num_wolves >= self.players:
            raise ValueError(
                f"wolves: {self.num_wolves} of {self.players} players; give fewer than half"
            )
        if self.plain and self.witch:
            raise ValueError("plain: there is no doctor whose place the witch could take")
        return self


NO_SEAT = -1
"""Entry of a list of votes for a player who abstains or is dead."""


@dataclass(frozen=True, slots=True)
class NightKill(SeatAction, template="kill Player {self.seat}"):
    """A wolf's vote at night for the victim."""


@dataclass(frozen=True, slots=True)
class Inspect(SeatAction, template="inspect Player {self.seat}"):
    """The seer's question at night: is this player a werewolf?"""


@dataclass(frozen=True, slots=True)
class Protect(SeatAction, template="protect Player {self.seat}"):
    """The doctor's choice at night: this player survives an attack."""


@dataclass(frozen=True, slots=True)
class DayVote(SeatAction, template="vote Player {self.seat}"):
    """A vote by day for the elimination of a player, sealed until all have voted."""


@dataclass(frozen=True, slots=True)
class ShootPlayer(SeatAction, template="shoot Player {self.seat}"):
    """The dying hunter's shot."""


@dataclass(frozen=True, slots=True)
class Poison(SeatAction, template="poison Player {self.seat}"):
    """The witch's poison: this player dies in the night."""


@dataclass(frozen=True, slots=True)
class HealVictim(Action, template="heal"):
    """The witch's healing potion: the victim of the night survives."""


HEAL = HealVictim()


@dataclass(frozen=True, slots=True)
class PackSeen(PrivateEvent):
    """Private: the other werewolves, after the deal."""

    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NightBegan(Event):
    """Public: a night begins, so the game is not over."""

    night: int


@dataclass(frozen=True, slots=True)
class PackChose(Event):
    """To the living wolves: their votes at night, and the victim that follows from them."""

    wolves: tuple[int, ...]
    votes: tuple[int, ...]
    """Seat that each of `wolves` voted for."""
    victim: int

    @property
    def audience(self) -> tuple[int, ...]:
        return self.wolves


@dataclass(frozen=True, slots=True)
class SeerSaw(PrivateEvent):
    """Private: the result of an inspection."""

    seat: int
    is_wolf: bool


@dataclass(frozen=True, slots=True)
class DoctorProtected(PrivateEvent):
    """Private: the choice of the doctor, after the night."""

    seat: int


@dataclass(frozen=True, slots=True)
class WitchSaw(PrivateEvent):
    """Private: the player whom the wolves attack, before the witch uses a potion."""

    victim: int


@dataclass(frozen=True, slots=True)
class WitchPoisoned(Event):
    """Public: the player who died by the witch's poison."""

    seat: int
    role: str
    """Revealed role, as in `NightEnded`."""


@dataclass(frozen=True, slots=True)
class NightEnded(Event):
    """Public: the player who died at night, if one did."""

    night: int
    victim: int | None
    role: str
    """Role of the dead player; "" if it is not revealed, in which case it is not the hunter."""


@dataclass(frozen=True, slots=True)
class DayBegan(Event):
    """Public: a day begins, so the game is not over."""

    day: int
    living: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VoteCast(Event):
    """Public: one vote of an open vote."""

    player: int
    vote: int
    """Seat, or `NO_SEAT`."""


@dataclass(frozen=True, slots=True)
class RunOffBegan(Event):
    """Public: the tied players, among whom all vote once more."""

    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DayVoted(Event):
    """Public: all votes of a day, and the player who is eliminated, if one is."""

    votes: tuple[int, ...]
    """Seat that each seat voted for, or `NO_SEAT`."""
    eliminated: int | None
    role: str
    """Revealed role, as in `NightEnded`."""


@dataclass(frozen=True, slots=True)
class HunterShot(Event):
    """Public: the dying hunter shoots a player, or does not shoot."""

    hunter: int
    seat: int | None
    role: str
    """Revealed role, as in `NightEnded`."""
