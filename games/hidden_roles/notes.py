"""Notes of one player that games of hidden roles share."""

from __future__ import annotations

from arena import Event, Notes
from games.hidden_roles.base import HiddenRolesBase, RoleDealt, RolesRevealed
from games.hidden_roles.posterior import RolePosterior


class RoleNotes(Notes):
    """The own role and the exact posterior; a game subclasses it to note its own events."""

    def __init__(self, game: HiddenRolesBase, player: int, posterior: RolePosterior) -> None:
        super().__init__(game, player)
        self.role = ""
        self.is_over = False
        self._posterior = posterior
        # The posterior is computed only for texts that show it.
        self._unread: list[Event] = []

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        self._unread.append(event)
        match event:
            case RoleDealt(_, role):
                self.role = role
            case RolesRevealed():
                self.is_over = True

    @property
    def posterior(self) -> RolePosterior:
        """The exact posterior after all events so far."""
        for event in self._unread:
            self._posterior.update(event)
        self._unread.clear()
        return self._posterior
