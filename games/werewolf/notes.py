"""Notes of one player of Werewolf: what happened so far, as tables that texts and bots read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import ArraySpec, Event, GameArrays, Observation, Spoken
from games.hidden_roles.knowledge import RoleNotes
from games.werewolf.base import WerewolfBase
from games.werewolf.moves import (
    NO_SEAT,
    DayBegan,
    DayVoted,
    DoctorProtected,
    HunterShot,
    NightBegan,
    NightEnded,
    PackSeen,
    SeerSaw,
)
from games.werewolf.posterior import WerewolfPosterior

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WerewolfNotes(RoleNotes):
    """Deaths, votes, statements and secrets that one player has witnessed."""

    game: WerewolfBase

    def __init__(self, game: WerewolfBase, player: int) -> None:
        super().__init__(game, player, WerewolfPosterior(game, player))
        self.pack: tuple[int, ...] = ()
        """The other wolves, if this player is one."""
        self.inspected: dict[int, bool] = {}
        """Results of the own inspections, by seat."""
        self.protected: int | None = None
        """Seat that this player protected last, as the doctor."""
        self.dead: dict[int, str] = {}
        """Dead players and how they died, with the role if it is known."""
        self.roles: dict[int, str] = {}
        """Roles that are public, by seat."""
        self.votes: list[DayVoted] = []
        self.statements: list[Spoken] = []
        """Statements of this day or night."""
        self.night = 0
        self.is_day = False

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        super().update(event)
        match event:
            case PackSeen(_, seats):
                self.pack = seats
            case SeerSaw(_, seat, is_wolf):
                self.inspected[seat] = is_wolf
            case DoctorProtected(_, seat):
                self.protected = seat
            # Statements are shown until the next day or night begins.
            case NightBegan(night):
                self.night, self.is_day, self.statements = night, False, []
            case DayBegan():
                self.is_day, self.statements = True, []
            case NightEnded(night, victim, role):
                self._bury(victim, role, f"died in night {night}")
            case DayVoted(_, eliminated, role):
                self.votes.append(event)
                self._bury(eliminated, role, f"eliminated on day {self.night}")
            case HunterShot(_, seat, role):
                self._bury(seat, role, "shot by the hunter")
            case Spoken():
                self.statements.append(event)

    def _bury(self, seat: int | None, role: str, how: str) -> None:
        if seat is not None:
            self.dead[seat] = f"{how}, {role}" if role else how
            if role:
                self.roles[seat] = role

    @property
    def living(self) -> tuple[int, ...]:
        """The living players."""
        return tuple(seat for seat in range(self.game.num_players) if seat not in self.dead)


class WerewolfArrays(GameArrays):
    """Observations of Werewolf as arrays."""

    game: WerewolfBase

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        players = self.game.num_players
        roles = len(self.game.distinct_roles)
        return {
            "player": ArraySpec(shape=(players,), low=0, high=1),
            "role": ArraySpec(shape=(roles,), low=0, high=1),
            "pack": ArraySpec(shape=(players,), low=0, high=1),
            "inspected": ArraySpec(shape=(players,), low=-1, high=1),
            "protected": ArraySpec(shape=(players,), low=0, high=1),
            "living": ArraySpec(shape=(players,), low=0, high=1),
            "public_roles": ArraySpec(shape=(players, roles), low=0, high=1),
            "last_votes": ArraySpec(shape=(players, players), low=0, high=1),
            "day": ArraySpec(shape=(2,), low=0, high=127),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the arrays; one column per seat.

        `inspected` is 1 for a werewolf and -1 for another role. `last_votes` has a row per voter.
        `day` is the number of the night, at most 127, and 1 by day.
        """
        import numpy as np  # Imported late: listing the games must stay fast.

        notes: WerewolfNotes = observation.notes  # type: ignore[assignment]
        arrays = {name: np.zeros(spec.shape, np.int8) for name, spec in self.specs.items()}
        arrays["player"][observation.player] = 1
        if notes.role:
            arrays["role"][self.game.distinct_roles.index(notes.role)] = 1
        arrays["pack"][list(notes.pack)] = 1
        for seat, is_wolf in notes.inspected.items():
            arrays["inspected"][seat] = 1 if is_wolf else -1
        if notes.protected is not None:
            arrays["protected"][notes.protected] = 1
        arrays["living"][list(notes.living)] = 1
        for seat, role in notes.roles.items():
            arrays["public_roles"][seat, self.game.distinct_roles.index(role)] = 1
        for voter, vote in enumerate(notes.votes[-1].votes if notes.votes else ()):
            if vote != NO_SEAT:
                arrays["last_votes"][voter, vote] = 1
        arrays["day"][:] = min(notes.night, 127), notes.is_day
        return arrays
