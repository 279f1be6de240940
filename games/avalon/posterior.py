"""Exact posterior over the roles of Avalon, by enumeration of the assignments.

The declared model is minimal. What a role sees at the beginning is true and complete. A mission
card `fail` was played by an evil member; a card `success` proves nothing, because evil members may
play it. Proposals, votes and talk prove nothing, because every role may do them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena import Event
from games.avalon.moves import CardPlayed, EvilRevealed, MissionEnded, SecretSeen
from games.avalon.options import ASSASSIN
from games.hidden_roles.posterior import RolePosterior

if TYPE_CHECKING:
    from games.avalon.game import Avalon


class AvalonPosterior(RolePosterior):
    """Knowledge of one player about the roles."""

    game: Avalon
    own_fails = 0
    """`fail` cards of this player in the mission that ends now."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        super().update(event)
        match event:
            case SecretSeen():
                self._see(event)
            case CardPlayed(_, fails):
                self.own_fails = int(fails)
            case MissionEnded(_, seats, fails):
                self._end_mission(seats, fails)
            case EvilRevealed(seats, assassin):
                self.keep(self.count_in(seats, self.game.minority_roles) == len(seats))
                self.reveal(assassin, ASSASSIN)

    def _see(self, event: SecretSeen) -> None:
        others = [seat for seat in range(self.game.num_players) if seat != self.player]
        _, visible = self.game.sight(self._own_role())
        # Complete: the seats seen have visible roles, and no other seat has.
        self.keep(
            (self.count_in(event.seats, visible) == len(event.seats))
            & (self.count_in(others, visible) == len(event.seats))
        )

    def _own_role(self) -> str:
        return self.game.distinct_roles[self.worlds[0, self.player]]

    def _end_mission(self, seats: tuple[int, ...], fails: int) -> None:
        # Each `fail` of others needs one evil member among them.
        others = [seat for seat in seats if seat != self.player]
        fails -= self.own_fails
        self.own_fails = 0
        self.keep(self.count_in(others, self.game.minority_roles) >= fails)
