"""Notes of one player of Werewolf: what happened so far, as tables that texts and bots read."""

from __future__ import annotations

from arena import Event, Spoken
from games.hidden_roles.notes import RoleNotes
from games.werewolf.base import WerewolfBase
from games.werewolf.moves import (
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
