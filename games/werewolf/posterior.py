"""Exact posterior over the roles of Werewolf, by enumeration of the assignments.

What follows from the rules: the own role and pack, inspections, revealed roles; the wolves kill no
wolf; a night without a victim proves that the doctor lived, and shows the doctor that the protected
player is no wolf; while the game goes on, wolves live and are fewer than the others. Votes and talk
prove nothing, because every role may do them.
"""

from __future__ import annotations

from arena import Event
from games.hidden_roles.knowledge import RolePosterior
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
from games.werewolf.options import DOCTOR, HUNTER, PACK


class WerewolfPosterior(RolePosterior):
    """Knowledge of one player about the roles."""

    game: WerewolfBase

    def __init__(self, game: WerewolfBase, player: int) -> None:
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
