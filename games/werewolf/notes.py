"""Knowledge of one player of Werewolf: notes of events, and facts of the roles.

The facts are those that follow from the rules: the own role and pack, inspections, published roles;
the wolves kill no wolf; a night without a victim proves that the doctor lived, and shows the doctor
that the protected player is no wolf; while the game goes on, wolves live and are fewer than the
others. Votes and talk prove nothing, because every role may do them.
"""

from __future__ import annotations

from collections.abc import Mapping

from arena import Event
from games.hidden_roles.notes import RoleNotes
from games.werewolf.rules import (
    DOCTOR,
    NO_SEAT,
    PACK,
    DayBegan,
    DayVoted,
    DoctorProtected,
    NightBegan,
    NightEnded,
    PackSeen,
    SeerSaw,
    Werewolf,
)


class WerewolfNotes(RoleNotes):
    """Deaths, votes, talk and secrets that one player has witnessed."""

    game: Werewolf

    def __init__(self, game: Werewolf, player: int) -> None:
        super().__init__(game, player)
        self.pack: tuple[int, ...] = ()
        """The other wolves, if this player is one."""
        self.inspected: dict[int, bool] = {}
        """Players whom this player has inspected as the seer, and whether they are wolves."""
        self.protected: int | None = None
        """Seat that this player protected last, as the doctor."""
        self.dead: dict[int, str] = {}
        """Dead players and how they died, with the role, which is public."""
        self.votes: list[DayVoted] = []
        self.night = 0
        self.is_day = False

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        super().update(event)
        match event:
            case PackSeen(_, seats):
                self.pack = seats
                self.add(seats, PACK, len(seats))
            case SeerSaw(_, seat, is_wolf):
                self.inspected[seat] = is_wolf
                self.add((seat,), PACK, int(is_wolf), int(is_wolf))
            case DoctorProtected(_, seat):
                self.protected = seat
            # Talk is shown until the next day or night begins.
            case NightBegan(night):
                self.night, self.is_day, self.spoken = night, False, []
                self._add_balance()
            case DayBegan():
                self.is_day, self.spoken = True, []
                self._add_balance()
            case NightEnded(night, victim, role):
                self._end_night(night, victim, role)
            case DayVoted(_, eliminated, role):
                self.votes.append(event)
                self._bury(eliminated, role, f"eliminated on day {self.night}")

    def _add_balance(self) -> None:
        # The game is not over: at least one wolf, and fewer wolves than others.
        self.add(self.living, PACK, 1, (len(self.living) - 1) // 2)

    def _end_night(self, night: int, victim: int | None, role: str) -> None:
        if victim is not None:
            self._bury(victim, role, f"died in night {night}")
        elif night > 1 or not self.game.options.quiet_first_night:
            self.add(self.living, (DOCTOR,), 1)
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
