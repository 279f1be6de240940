"""Notes of one player of Avalon: what happened so far, as tables that texts and arrays read."""

from __future__ import annotations

from dataclasses import dataclass

from arena import Event
from games.avalon.base import AvalonBase
from games.avalon.moves import (
    EvilRevealed,
    MissionEnded,
    SecretSeen,
    TeamProposed,
    TeamVoted,
)
from games.avalon.posterior import AvalonPosterior
from games.hidden_roles.notes import RoleNotes


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed team and the votes on it."""

    leader: int
    mission: int
    """Number of the mission, from 1."""
    attempt: int
    """Number of the proposal for this mission, from 1."""
    seats: tuple[int, ...]
    votes: tuple[bool, ...] = ()
    """True is approval; empty before the vote is over."""
    approved: bool = False


class AvalonNotes(RoleNotes):
    """Proposals, votes, missions and secrets that one player has witnessed."""

    game: AvalonBase

    def __init__(self, game: AvalonBase, player: int) -> None:
        super().__init__(game, player, AvalonPosterior(game, player))
        self.secret: SecretSeen | None = None
        self.proposals: list[Proposal] = []
        self.missions: list[MissionEnded] = []
        self.revealed: EvilRevealed | None = None

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        super().update(event)
        match event:
            case SecretSeen():
                self.secret = event
            case TeamProposed(leader, mission, attempt, seats):
                self.proposals.append(Proposal(leader, mission, attempt, seats))
            case TeamVoted(votes, approved):
                # Votes are always on the last proposal.
                last = self.proposals[-1]
                self.proposals[-1] = Proposal(
                    last.leader, last.mission, last.attempt, last.seats, votes, approved
                )
            case MissionEnded():
                self.missions.append(event)
            case EvilRevealed():
                self.revealed = event

    @property
    def mission(self) -> int:
        """Index of the mission that is next or in progress, from 0."""
        return min(len(self.missions), 4)

    @property
    def rejected(self) -> int:
        """Rejected proposals of the current mission."""
        own = [p for p in self.proposals if p.mission == self.mission + 1 and p.votes]
        return sum(not proposal.approved for proposal in own)

    @property
    def leader(self) -> int:
        """Seat whose proposal is open, or that proposes next."""
        # The leader changes after each proposal, so their number names the next one.
        if self.proposals and not self.proposals[-1].votes:
            return self.proposals[-1].leader
        return len(self.proposals) % self.game.num_players
