"""Exact posterior over the roles of Avalon, by enumeration of the assignments.

The declared model is minimal. What a role sees at the beginning is true and complete. A mission
card `fail` was played by an evil member; a card `success` proves nothing, because evil members may
play it. Proposals, votes and talk prove nothing, because every role may do them.
"""

from __future__ import annotations

from arena import Event
from games.avalon.base import AvalonBase
from games.avalon.moves import EvilRevealed, MissionCardPlayed, MissionEnded, SecretSeen
from games.avalon.options import ASSASSIN
from games.hidden_roles.game import RoleDealt
from games.hidden_roles.knowledge import RolePosterior


class AvalonPosterior(RolePosterior):
    """Knowledge of one player about the roles."""

    game: AvalonBase
    role = ""
    own_fails = 0
    """`fail` cards of this player in the mission that ends now."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        super().update(event)
        match event:
            case RoleDealt(_, role):
                self.role = role
            case SecretSeen(_, seats):
                self._see(seats)
            case MissionCardPlayed(_, fails):
                self.own_fails = int(fails)
            case MissionEnded(_, seats, fails):
                # Each `fail` of others needs one evil member among them.
                others = [seat for seat in seats if seat != self.player]
                self.add(others, self.game.minority_roles, fails - self.own_fails)
                self.own_fails = 0
            case EvilRevealed(seats, assassin):
                self.add(seats, self.game.minority_roles, len(seats))
                self.reveal(assassin, ASSASSIN)

    def _see(self, seats: tuple[int, ...]) -> None:
        # Complete: the seats that are seen have visible roles, and no other seat has.
        _, visible = self.game.sight(self.role)
        hidden = set(range(self.game.num_players)) - {self.player, *seats}
        self.add(seats, visible, len(seats))
        self.add(sorted(hidden), visible, 0, 0)
