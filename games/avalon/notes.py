"""Knowledge of one player of Avalon: notes of events, facts of the roles, and arrays.

The model of the facts is minimal. What a role sees at the beginning is true and complete. A mission
card `fail` was played by an evil member; a card `success` proves nothing, because evil members may
play it. Proposals, votes and talk prove nothing, because every role may do them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena import ArraySpec, Event
from games.avalon.rules import (
    ASSASSIN,
    MAX_PROPOSALS,
    SIGHT,
    Avalon,
    EvilRevealed,
    LadyPassed,
    MissionCardPlayed,
    MissionEnded,
    SecretSeen,
    TeamProposed,
    TeamVoted,
)
from games.hidden_roles.notes import RoleArrays, RoleNotes


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
        self.lady = game.num_players - 1 if game.options.lady else None
        """Holder of the Lady of the Lake; None without the option."""
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
            case LadyPassed(_, seat):
                self.lady = seat

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


class AvalonArrays(RoleArrays):
    """Observations of Avalon as arrays; seats are columns, missions and proposals are rows.

    `seen` has the seats that this role sees: row 0 as evil, row 1 as Merlin or Morgana. Votes and
    results are 1 for approval or success, -1 for rejection or failure, 0 if still open. With the
    Lady of the Lake, `lady` has her holder, and `examined` is 1 for an evil player and -1 for a
    good one.
    """

    game: Avalon

    def _game_specs(self, seats: ArraySpec) -> Mapping[str, ArraySpec]:
        players = self.game.num_players
        lady = {"lady": seats, "examined": ArraySpec((players,), low=-1, high=1)}
        return {
            "seen": ArraySpec((2, players), low=0, high=1),
            "leader": seats,
            "teams": ArraySpec((5, MAX_PROPOSALS, players), low=0, high=1),
            "votes": ArraySpec((5, MAX_PROPOSALS, players), low=-1, high=1),
            "results": ArraySpec((5,), low=-1, high=1),
            "fails": ArraySpec((5,), low=0, high=players),
            "revealed": seats,
            **(lady if self.game.options.lady else {}),
        }

    def _fill(self, arrays: Mapping[str, NDArray[Any]], notes: AvalonNotes) -> None:
        arrays["leader"][notes.leader] = 1
        if notes.secret:
            arrays["seen"][int(notes.secret.kind == "merlin"), list(notes.secret.seats)] = 1
        for proposal in notes.proposals:
            arrays["teams"][proposal.mission - 1, proposal.attempt - 1, list(proposal.seats)] = 1
        for team, vote in notes.voted:
            arrays["votes"][team.mission - 1, team.attempt - 1] = np.where(vote.votes, 1, -1)
        for mission in notes.missions:
            arrays["results"][mission.mission - 1] = 1 if mission.succeeded else -1
            arrays["fails"][mission.mission - 1] = mission.fails
        if notes.revealed:
            arrays["revealed"][list(notes.revealed.seats)] = 1
        if notes.lady is not None:
            arrays["lady"][notes.lady] = 1
        for seat, is_evil in notes.examined.items():
            arrays["examined"][seat] = 1 if is_evil else -1
