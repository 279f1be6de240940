"""Knowledge of one player of Werewolf: notes of events, facts of the roles, and arrays.

The facts are those that follow from the rules: the own role and pack, inspections, published roles;
the wolves kill no wolf; a night without a victim proves that the doctor or the witch lived, and
shows the doctor that the protected player is no wolf; poison proves that the witch lived; while the
game goes on, wolves live and are fewer than the others. Votes and talk prove nothing, because every
role may do them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from arena import ArraySpec, Event
from games.hidden_roles.notes import RoleArrays, RoleNotes
from games.werewolf.rules import (
    DOCTOR,
    NO_SEAT,
    PACK,
    WITCH,
    DayBegan,
    DayVoted,
    DoctorProtected,
    NightBegan,
    NightEnded,
    PackSeen,
    Werewolf,
    WitchPoisoned,
    WitchSaw,
)


class WerewolfNotes(RoleNotes):
    """Deaths, votes, talk and secrets that one player has witnessed."""

    game: Werewolf

    def __init__(self, game: Werewolf, player: int) -> None:
        super().__init__(game, player)
        self.pack: tuple[int, ...] = ()
        """The other wolves, if this player is one."""
        self.protected: int | None = None
        """Seat that this player protected last, as the doctor."""
        self.dead: dict[int, str] = {}
        """Dead players and how they died, with the role, which is public."""
        self.votes: list[DayVoted] = []
        self.victim: int | None = None
        """The player who is attacked in this night, as the witch has seen."""
        self.night = 0
        self.is_day = False

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        super().update(event)
        match event:
            case PackSeen(_, seats):
                self.pack = seats
                self.add(seats, PACK, len(seats))
            case DoctorProtected(_, seat):
                self.protected = seat
            # Talk is shown until the next day or night begins.
            case NightBegan(night):
                self.night, self.is_day, self.spoken = night, False, []
                self._add_balance()
            case DayBegan():
                self.is_day, self.spoken = True, []
                self._add_balance()
            case WitchSaw(_, victim):
                self.victim = victim
                self.add((victim,), PACK, 0, 0)
            case WitchPoisoned(seat, role):
                # The witch lived, and she does not poison herself.
                self.add(self.living, (WITCH,), 1)
                self._bury(seat, role, "poisoned")
            case NightEnded(night, victim, role):
                self.victim = None
                self._end_night(night, victim, role)
            case DayVoted(_, eliminated, role):
                self.votes.append(event)
                self._bury(eliminated, role, f"eliminated on day {self.night}")

    def _add_balance(self) -> None:
        # The game is not over: at least one wolf, and fewer wolves than others.
        self.add(self.living, PACK, 1, (len(self.living) - 1) // 2)

    def _end_night(self, night: int, victim: int | None, role: str) -> None:
        options = self.game.options
        if victim is not None:
            self._bury(victim, role, f"died in night {night}")
        elif night > 1 or not options.quiet_first_night:
            self.add(self.living, (WITCH if options.witch else DOCTOR,), 1)
            # A doctor who lives protects a player in each such night.
            if self.protected is not None and self.player in self.living:
                self.add((self.protected,), PACK, 0, 0)

    def _bury(self, seat: int | None, role: str, how: str) -> None:
        if seat is not None:
            self.dead[seat] = f"{how}, {role}"
            self.dealt[seat] = role
            self.add((seat,), (role,), 1)

    @property
    def latest_votes(self) -> Mapping[int, int]:
        """The seats that players voted for in the last vote, by voter."""
        votes = self.votes[-1].votes if self.votes else ()
        return {voter: vote for voter, vote in enumerate(votes) if vote != NO_SEAT}

    @property
    def living(self) -> tuple[int, ...]:
        """The living players."""
        return tuple(seat for seat in range(self.game.num_players) if seat not in self.dead)


class WerewolfArrays(RoleArrays):
    """Observations of Werewolf as arrays, with one column per seat.

    `inspected` is 1 for a werewolf and -1 for another role. `last_votes` has a row per voter.
    `day` is the number of the night, at most 127, and 1 by day. With the option for it, `attacked`
    is the seat that the witch may save.
    """

    game: Werewolf

    def _game_specs(self, seats: ArraySpec) -> Mapping[str, ArraySpec]:
        players, roles = self.game.num_players, len(self.game.distinct_roles)
        return {
            "pack": seats,
            "inspected": ArraySpec((players,), low=-1, high=1),
            "protected": seats,
            "living": seats,
            "public_roles": ArraySpec((players, roles), low=0, high=1),
            "last_votes": ArraySpec((players, players), low=0, high=1),
            "day": ArraySpec((2,), low=0, high=127),
            **({"attacked": seats} if self.game.options.witch else {}),
        }

    def _fill(self, arrays: Mapping[str, NDArray[Any]], notes: WerewolfNotes) -> None:
        arrays["pack"][list(notes.pack)] = 1
        for seat, is_wolf in notes.examined.items():
            arrays["inspected"][seat] = 1 if is_wolf else -1
        if notes.protected is not None:
            arrays["protected"][notes.protected] = 1
        arrays["living"][list(notes.living)] = 1
        for seat in notes.dead:
            role = self.game.distinct_roles.index(notes.dealt[seat])
            arrays["public_roles"][seat, role] = 1
        for voter, vote in notes.latest_votes.items():
            arrays["last_votes"][voter, vote] = 1
        if notes.victim is not None:
            arrays["attacked"][notes.victim] = 1
        arrays["day"][:] = min(notes.night, 127), notes.is_day
