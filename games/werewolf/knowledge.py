"""What one player of Werewolf knows: the exact posterior of the roles, and notes of what happened.

The posterior enumerates the assignments of the roles. What follows from the rules: the own role and
pack, inspections, revealed roles; the wolves kill no wolf; a night without a victim proves that the
doctor lived, and shows the doctor that the protected player is no wolf; while the game goes on,
wolves live and are fewer than the others. Votes and talk prove nothing, because every role may do
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import ArraySpec, Event, GameArrays, Observation, Spoken
from games.hidden_roles.knowledge import RoleNotes, RolePosterior
from games.werewolf.game import Werewolf
from games.werewolf.moves import (
    DOCTOR,
    HUNTER,
    NO_SEAT,
    PACK,
    DayBegan,
    DayVoted,
    DoctorProtected,
    HunterShot,
    NightBegan,
    NightEnded,
    PackSeen,
    SeerSaw,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WerewolfPosterior(RolePosterior):
    """Knowledge of one player about the roles."""

    game: Werewolf

    def __init__(self, game: Werewolf, player: int) -> None:
        super().__init__(game, player)
        self.living: tuple[int, ...] = tuple(range(game.num_players))
        self.protected: int | None = None
        """Seat that this player, as the doctor, protected in the night that ends now."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        super().update(event)
        match event:
            case PackSeen(_, seats):
                self.add(seats, PACK, len(seats))
            case SeerSaw(_, seat, is_wolf):
                self.add((seat,), PACK, int(is_wolf), int(is_wolf))
            case DoctorProtected(_, seat):
                self.protected = seat
            case NightEnded(_, victim, role):
                self._end_night(victim, role)
            case DayVoted(_, seat, role) | HunterShot(_, seat, role):
                self._bury(seat, role)
            case NightBegan() | DayBegan():
                # The game is not over: at least one wolf, and fewer wolves than others.
                self.add(self.living, PACK, 1, (len(self.living) - 1) // 2)

    def _end_night(self, victim: int | None, role: str) -> None:
        if victim is not None:
            self.add((victim,), PACK, 0, 0)
            self._bury(victim, role)
        else:
            self.add(self.living, (DOCTOR,), 1)
            if self.protected is not None:
                self.add((self.protected,), PACK, 0, 0)
        self.protected = None

    def _bury(self, seat: int | None, role: str) -> None:
        if seat is None:
            return
        self.living = tuple(other for other in self.living if other != seat)
        if role:
            self.reveal(seat, role)
        else:
            # The hunter is always revealed.
            self.add((seat,), (HUNTER,), 0, 0)


class WerewolfNotes(RoleNotes):
    """Deaths, votes, statements and secrets that one player has witnessed."""

    game: Werewolf

    def __init__(self, game: Werewolf, player: int) -> None:
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

    game: Werewolf

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
