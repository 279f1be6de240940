"""Notes of one player of Werewolf: what happened so far, as tables that texts and bots read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena import Event, Notes, Spoken
from games.hidden_roles.rules import RoleDealt, RolesRevealed
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

if TYPE_CHECKING:
    from games.werewolf.game import Werewolf


class WerewolfNotes(Notes):
    """Deaths, votes, statements and secrets that one player has witnessed."""

    game: Werewolf

    def __init__(self, game: Werewolf, player: int) -> None:
        super().__init__(game, player)
        self.role = ""
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
        self.is_over = False
        self._posterior = WerewolfPosterior(game, player)
        # The posterior is computed only for texts that show it.
        self._unread: list[Event] = []

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        self._unread.append(event)
        match event:
            case RoleDealt(_, role):
                self.role = role
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
            case RolesRevealed():
                self.is_over = True

    def _bury(self, seat: int | None, role: str, how: str) -> None:
        if seat is not None:
            self.dead[seat] = f"{how}, {role}" if role else how
            if role:
                self.roles[seat] = role

    @property
    def living(self) -> tuple[int, ...]:
        """The living players."""
        return tuple(seat for seat in range(self.game.num_players) if seat not in self.dead)

    @property
    def posterior(self) -> WerewolfPosterior:
        """The exact posterior after all events so far."""
        for event in self._unread:
            self._posterior.update(event)
        self._unread.clear()
        return self._posterior
