"""Knowledge of one player of Avalon: notes of events, and facts of the roles.

The model of the facts is minimal. What a role sees at the beginning is true and complete. A mission
card `fail` was played by an evil member; a card `success` proves nothing, because evil members may
play it. Proposals, votes and talk prove nothing, because every role may do them.
"""

from __future__ import annotations

from collections.abc import Iterator

from arena import Event
from games.avalon.rules import (
    ASSASSIN,
    SIGHT,
    Avalon,
    EvilRevealed,
    MissionCardPlayed,
    MissionEnded,
    SecretSeen,
    TeamProposed,
    TeamVoted,
)
from games.hidden_roles.notes import RoleNotes


class AvalonNotes(RoleNotes):
    """Proposals, votes, missions and secrets that one player has witnessed."""

    game: Avalon

    def __init__(self, game: Avalon, player: int) -> None:
        super().__init__(game, player)
        self.secret: SecretSeen | None = None
        self.proposals: list[TeamProposed] = []
        self.votes: list[TeamVoted] = []
        """Votes on the proposals; the open proposal has none yet."""
        self.missions: list[MissionEnded] = []
        self.revealed: EvilRevealed | None = None
        self._own_fails = 0
        """`fail` cards of this player in the mission that ends now."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        super().update(event)
        evil = self.game.minority
        match event:
            case SecretSeen(player, seats) if player == self.player:
                self.secret = event
                # Complete: the seats that are seen have visible roles, and no other seat has.
                _, visible = SIGHT[self.role]
                hidden = set(range(self.game.num_players)) - {self.player, *seats}
                self.add(seats, visible, len(seats))
                self.add(sorted(hidden), visible, 0, 0)
            case TeamProposed():
                self.proposals.append(event)
                # Talk is shown until the next proposal.
                self.spoken = []
            case TeamVoted():
                self.votes.append(event)
            case MissionCardPlayed(_, fails):
                self._own_fails = int(fails)
            case MissionEnded(_, seats, fails):
                self.missions.append(event)
                # Each `fail` of others needs one evil member among them.
                others = [seat for seat in seats if seat != self.player]
                self.add(others, evil, fails - self._own_fails)
                self._own_fails = 0
            case EvilRevealed(seats, assassin):
                self.revealed = event
                self.add(seats, evil, len(seats))
                self.add((assassin,), (ASSASSIN,), 1)

    @property
    def mission(self) -> int:
        """Index of the mission that is next or in progress, from 0."""
        return min(len(self.missions), 4)

    @property
    def voted(self) -> Iterator[tuple[TeamProposed, TeamVoted]]:
        """The proposals of the past with the votes on them."""
        return zip(self.proposals, self.votes, strict=False)

    @property
    def rejected(self) -> int:
        """Rejected proposals of the current mission."""
        number = self.mission + 1
        return sum(team.mission == number and not vote.approved for team, vote in self.voted)

    @property
    def leader(self) -> int:
        """Seat whose proposal is open, or that proposes next."""
        # The leader changes after each proposal.
        return len(self.votes) % self.game.num_players
