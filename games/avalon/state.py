"""Positions of Avalon."""

from __future__ import annotations

from collections.abc import Mapping

from arena import Action, ActionSet
from games.avalon.base import AvalonBase
from games.avalon.moves import (
    Assassinate,
    EvilRevealed,
    MerlinGuessed,
    MissionCardPlayed,
    MissionEnded,
    PlayCard,
    Propose,
    SecretSeen,
    TeamProposed,
    TeamVoted,
    VoteOnTeam,
)
from games.avalon.options import ASSASSIN, EVIL, GOOD, MAX_PROPOSALS, MERLIN
from games.hidden_roles.game import HiddenRolesState


class AvalonState(HiddenRolesState):
    """A position: the results of the missions, the leader and the current proposal."""

    game: AvalonBase

    def __init__(self, game: AvalonBase) -> None:
        super().__init__(game)
        self.leader = 0
        self.results: tuple[bool, ...] = ()
        """For each finished mission whether it succeeded."""
        self.rejected = 0
        """Rejected proposals of the current mission."""
        self.team: tuple[int, ...] = ()
        """The proposed team."""
        self.talks = 0
        """Rounds of statements on the current proposal that are over."""
        self.ending = ""

    def _legal_actions(self, player: int) -> ActionSet:
        match self.phase:
            case "propose":
                return self.game.proposals(len(self.results))
            case "talk":
                return self.game.statements
            case "vote":
                return self.game.vote_actions
            case "mission":
                return self.game.card_actions[self.game.team_of(self.dealt[player])]
            case _:
                return self.game.guesses(self._seats_of(GOOD))

    def _seats_of(self, team: int) -> tuple[int, ...]:
        return tuple(seat for seat, other in enumerate(self.teams()) if other == team)

    def _start(self) -> None:
        for event in secrets(self.game, self.dealt):
            self.log.append(event)
        self._begin_proposal()

    def _begin_proposal(self) -> None:
        self.turn += 1
        self._begin("propose", (self.leader,))

    def _resolve(self, phase: Mapping[int, Action]) -> None:
        first = next(iter(phase.values()))
        match first:
            case Propose(seats):
                self._propose(seats)
            case VoteOnTeam():
                self._vote(tuple(action == VoteOnTeam(True) for action in phase.values()))
            case PlayCard():
                self._play({seat: action == PlayCard(True) for seat, action in phase.items()})
            case Assassinate(seat):
                self._guess(seat)
            case _:
                self._talk(phase)

    def _propose(self, seats: tuple[int, ...]) -> None:
        self.team, self.talks = seats, 0
        mission, attempt = len(self.results) + 1, self.rejected + 1
        self.log.append(TeamProposed(self.leader, mission, attempt, seats))
        # The next player leads, whatever becomes of this proposal.
        self.leader = (self.leader + 1) % self.game.num_players
        self._discuss()

    def _discuss(self) -> None:
        """Begin a round of statements, or the vote after the last one."""
        phase = "talk" if self.talks < self.game.options.talk else "vote"
        self._begin(phase, tuple(range(self.game.num_players)))

    def _talk(self, phase: Mapping[int, Action]) -> None:
        self.talks += 1
        self._log_statements(phase)
        self._discuss()

    def _vote(self, votes: tuple[bool, ...]) -> None:
        # A tie rejects.
        approved = 2 * sum(votes) > len(votes)
        self.log.append(TeamVoted(votes, approved))
        # Only proposals rejected in a row count.
        if approved:
            self.rejected = 0
            # All members act, although good ones have no choice: who acts shows nothing.
            self._begin("mission", self.team)
            return
        self.rejected += 1
        if self.rejected == MAX_PROPOSALS:
            self.ending = f"{MAX_PROPOSALS} proposals in a row were rejected: evil wins"
            self._end(EVIL)
        else:
            self._begin_proposal()

    def _play(self, cards: Mapping[int, bool]) -> None:
        mission, fails = len(self.results), sum(cards.values())
        succeeded = fails < self.game.fails_needed(mission)
        # Each member sees its own card again, and no player sees the cards of the others.
        for seat, fail in cards.items():
            self.log.append(MissionCardPlayed(seat, fail))
        self.log.append(MissionEnded(mission + 1, tuple(cards), fails, succeeded))
        self.results += (succeeded,)
        if self.results.count(False) == 3:
            self.ending = "three missions failed: evil wins"
            self._end(EVIL)
        elif self.results.count(True) < 3:
            self._begin_proposal()
        # The last chance of evil; without Merlin there is nothing to guess.
        elif MERLIN in self.dealt:
            assassin = self.dealt.index(ASSASSIN)
            self.log.append(EvilRevealed(self._seats_of(EVIL), assassin))
            self._begin("assassinate", (assassin,))
        else:
            self.ending = "three missions succeeded: good wins"
            self._end(GOOD)

    def _guess(self, seat: int) -> None:
        correct = self.dealt[seat] == MERLIN
        self.log.append(MerlinGuessed(self.dealt.index(ASSASSIN), seat, correct))
        found = "but the Assassin found Merlin: evil wins"
        missed = "and the Assassin did not find Merlin: good wins"
        self.ending = f"three missions succeeded, {found if correct else missed}"
        self._end(EVIL if correct else GOOD)

    def reason(self) -> str:
        return self.ending


def secrets(game: AvalonBase, roles: tuple[str, ...]) -> list[SecretSeen]:
    """Return what each role sees after the deal, in the order of the seats."""
    events = []
    for seat, role in enumerate(roles):
        kind, visible = game.sight(role)
        if kind:
            # A role does not see itself.
            seen = (other for other, its in enumerate(roles) if its in visible and other != seat)
            events.append(SecretSeen(seat, tuple(seen), kind))
    return events
