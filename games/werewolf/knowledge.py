"""What one player of Werewolf knows: the exact posterior of the roles, and notes of what happened.

The posterior enumerates the assignments of the roles. What follows from the rules: the own role and
pack, inspections, revealed roles; the wolves kill no wolf; a night without a victim proves that the
doctor or the witch lived, and shows the doctor that the protected player is no wolf; poison proves
that the witch lived; while the game goes on, wolves live and are fewer than the others. Votes and
talk prove nothing, because every role may do them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import ArraySpec, Event, Observation, Spoken
from games.hidden_roles.knowledge import RoleArrays, RoleNotes, RolePosterior
from games.werewolf.game import Werewolf
from games.werewolf.moves import (
    DOCTOR,
    HUNTER,
    NO_SEAT,
    PACK,
    WITCH,
    DayBegan,
    DayVoted,
    DoctorProtected,
    HunterShot,
    NightBegan,
    NightEnded,
    PackSeen,
    RunOffBegan,
    SeerSaw,
    VoteCast,
    WitchPoisoned,
    WitchSaw,
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
            case WitchSaw(_, victim):
                self.add((victim,), PACK, 0, 0)
            case WitchPoisoned(seat, role):
                # The witch lived, and she does not poison herself.
                self.add(self.living, (WITCH,), 1)
                self.add((seat,), (WITCH,), 0, 0)
                self._bury(seat, role)
            case NightEnded(night, victim, role):
                self._end_night(night, victim, role)
            case DayVoted(_, seat, role) | HunterShot(_, seat, role):
                self._bury(seat, role)
            case NightBegan() | DayBegan():
                # The game is not over: at least one wolf, and fewer wolves than others.
                self.add(self.living, PACK, 1, (len(self.living) - 1) // 2)

    def _end_night(self, night: int, victim: int | None, role: str) -> None:
        options = self.game.options
        if victim is not None:
            self.add((victim,), PACK, 0, 0)
            self._bury(victim, role)
        elif night > 1 or not options.quiet_first_night:
            self.add(self.living, (WITCH if options.witch else DOCTOR,), 1)
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
        self.cast: dict[int, int] = {}
        """Votes of the open vote that is under way, by voter."""
        self.candidates: tuple[int, ...] = ()
        """The tied players of a run-off."""
        self.victim: int | None = None
        """The player who is attacked in this night, as the witch has seen."""
        self.statements: list[Spoken] = []
        """Statements of this day or night."""
        self.night = 0
        self.is_day = False

    def update(self, event: Event) -> None:  # noqa: PLR0912 - one case for each kind.
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
                self.candidates = ()
            case DayBegan():
                self.is_day, self.statements = True, []
            case WitchSaw(_, victim):
                self.victim = victim
            case WitchPoisoned(seat, role):
                self._bury(seat, role, "poisoned")
            case NightEnded(night, victim, role):
                self.victim = None
                self._bury(victim, role, f"died in night {night}")
            case VoteCast(voter, vote):
                self.cast[voter] = vote
            case RunOffBegan(seats):
                self.candidates = seats
            case DayVoted(_, eliminated, role):
                self.votes.append(event)
                self.cast = {}
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
    def latest_votes(self) -> Mapping[int, int]:
        """The seats that players voted for, by voter: now in an open vote, else in the last one."""
        votes = self.cast or dict(enumerate(self.votes[-1].votes if self.votes else ()))
        return {voter: vote for voter, vote in votes.items() if vote != NO_SEAT}

    @property
    def living(self) -> tuple[int, ...]:
        """The living players."""
        return tuple(seat for seat in range(self.game.num_players) if seat not in self.dead)


class WerewolfArrays(RoleArrays):
    """Observations of Werewolf as arrays."""

    game: Werewolf

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        players = self.game.num_players
        roles, options = len(self.game.distinct_roles), self.game.options
        more = {"candidates": options.run_off, "attacked": options.witch}
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
            **{name: ArraySpec((players,), low=0, high=1) for name in more if more[name]},
            **self._stated,
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the arrays; one column per seat.

        `inspected` is 1 for a werewolf and -1 for another role. `last_votes` has a row per voter.
        `day` is the number of the night, at most 127, and 1 by day. With the options for it,
        `candidates` are those of a run-off, and `attacked` is the seat that the witch may save.
        """
        notes: WerewolfNotes = observation.notes  # type: ignore[assignment]
        arrays = self._zeros()
        self._fill_stated(arrays, notes)
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
        for voter, vote in notes.latest_votes.items():
            arrays["last_votes"][voter, vote] = 1
        if notes.candidates:
            arrays["candidates"][list(notes.candidates)] = 1
        if notes.victim is not None:
            arrays["attacked"][notes.victim] = 1
        arrays["day"][:] = min(notes.night, 127), notes.is_day
        return arrays
