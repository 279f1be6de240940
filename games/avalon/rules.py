"""Avalon as a `Game`: The Resistance with roles (D. Eskridge, Indie Boards and Cards, 2012).

J. Serrino, M. Kleiman-Weiner, D. Parkes, J. Tenenbaum, "Finding Friend and Foe in Multi-Agent
Games", NeurIPS 2019, study the game without talk; Light et al., "AvalonBench" (2023), with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

from pydantic import Field

from arena import Action, ActionSet, Event
from arena.core.event import PrivateEvent
from games.hidden_roles.rules import (
    PASS,
    HiddenRolesGame,
    HiddenRolesState,
    RoleOptions,
    SeatAction,
)

GOOD, EVIL = 0, 1
"""Numbers of the teams."""

SERVANT, MINION = "Loyal Servant", "Minion"
MERLIN, PERCIVAL = "Merlin", "Percival"
ASSASSIN, MORGANA, MORDRED, OBERON = "Assassin", "Morgana", "Mordred", "Oberon"
ROLES = (MERLIN, PERCIVAL, SERVANT, ASSASSIN, MORGANA, MORDRED, OBERON, MINION)
EVIL_ROLES = frozenset({ASSASSIN, MORGANA, MORDRED, OBERON, MINION})
SIGHT: Mapping[str, tuple[Literal["evil", "merlin"], frozenset[str]]] = {
    MERLIN: ("evil", EVIL_ROLES - {MORDRED}),
    PERCIVAL: ("merlin", frozenset({MERLIN, MORGANA})),
    **{role: ("evil", EVIL_ROLES - {OBERON}) for role in EVIL_ROLES - {OBERON}},
}
"""The kind of secret that a role sees, and the roles of the seats that it sees."""

BOARDS: Mapping[int, tuple[int, tuple[int, ...]]] = {
    5: (2, (2, 3, 2, 3, 3)),
    6: (2, (2, 3, 4, 3, 4)),
    7: (3, (2, 3, 3, 4, 4)),
    8: (3, (3, 4, 4, 5, 5)),
    9: (3, (3, 4, 4, 5, 5)),
    10: (4, (3, 4, 4, 5, 5)),
}
"""Rule book: evil players and members of the team of each mission, by the number of players."""

ADDED = {7: (OBERON,), 9: (MORDRED,), 10: (MORDRED, OBERON)}
"""Special roles of larger games, beside Merlin, Percival, the Assassin and Morgana."""

MAX_PROPOSALS = 5
"""Rejected proposals of one mission after which evil wins."""


class AvalonOptions(RoleOptions):
    """Options of `avalon`."""

    players: int = Field(5, ge=5, le=10, description="Number of seats.")
    roles: Literal["standard", "merlin"] = Field(
        "standard",
        description="Special roles. 'standard': the usual set for the number of players; 'merlin': "
        "Merlin and the Assassin.",
    )


@dataclass(frozen=True, slots=True)
class Propose(Action):
    """Propose the team of the mission; seats are in ascending order."""

    seats: tuple[int, ...]

    def __str__(self) -> str:
        return f"propose {', '.join(f'Player {seat}' for seat in self.seats)}"


@dataclass(frozen=True, slots=True)
class VoteOnTeam(Action):
    """Approve or reject the proposed team, sealed until all have voted."""

    approves: bool

    def __str__(self) -> str:
        return "approve" if self.approves else "reject"


@dataclass(frozen=True, slots=True)
class PlayCard(Action):
    """Play a mission card face down; only evil members may play `fail`."""

    fails: bool

    def __str__(self) -> str:
        return "fail" if self.fails else "success"


@dataclass(frozen=True, slots=True)
class Assassinate(SeatAction, template="assassinate Player {self.seat}"):
    """Name the seat of Merlin, as the Assassin after three missions that succeeded."""


APPROVE, REJECT = VoteOnTeam(True), VoteOnTeam(False)
SUCCESS, FAIL = PlayCard(False), PlayCard(True)


@dataclass(frozen=True, slots=True)
class SecretSeen(PrivateEvent):
    """Private: the seats that a role sees after the deal.

    `evil`: these seats are evil (all that this role sees). `merlin`: one of these seats is Merlin.
    """

    seats: tuple[int, ...]
    kind: Literal["evil", "merlin"]


@dataclass(frozen=True, slots=True)
class TeamProposed(Event):
    """Public: the proposal of a leader."""

    leader: int
    mission: int
    """Number of the mission, from 1."""
    attempt: int
    """Number of the proposal for this mission, from 1."""
    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TeamVoted(Event):
    """Public: all votes on a team, after the last one."""

    votes: tuple[bool, ...]
    """True is approval; one per seat."""
    approved: bool


@dataclass(frozen=True, slots=True)
class MissionCardPlayed(PrivateEvent):
    """Private: the own mission card, after the last member has played."""

    fails: bool


@dataclass(frozen=True, slots=True)
class MissionEnded(Event):
    """Public: the result of a mission. It is not public who played which card."""

    mission: int
    seats: tuple[int, ...]
    fails: int
    """Number of `fail` cards."""
    succeeded: bool


@dataclass(frozen=True, slots=True)
class EvilRevealed(Event):
    """Public: the evil players, who reveal themselves before the Assassin names Merlin."""

    seats: tuple[int, ...]
    assassin: int


@dataclass(frozen=True, slots=True)
class MerlinGuessed(Event):
    """Public: the Assassin's guess."""

    assassin: int
    target: int
    correct: bool


class Avalon(HiddenRolesGame):
    """Five to ten players: a good majority, and an evil minority that knows itself.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> state = Avalon(players=5, talk=0).initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> state.roles()
        ('Loyal Servant', 'Percival', 'Merlin', 'Morgana', 'Assassin')
        >>> len(state.legal_actions(0))  # Teams of two.
        10
    """

    name = "avalon"
    turn_bound = 5 * MAX_PROPOSALS  # A turn is a proposal; there are five missions at most.
    team_names = sides = ("good", "evil")
    minority = EVIL_ROLES
    summary = "missions of loyal servants and hidden traitors; find Merlin"
    Options = AvalonOptions
    options: AvalonOptions
    Text = "games.avalon.text:AvalonText"
    Analysis = "games.avalon.knowledge:AvalonAnalysis"
    View = "games.avalon.text:AvalonView"
    Talk = "games.hidden_roles.talk:RoleTalk"

    @cached_property
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat: good ones first."""
        players, (evil, _) = self.num_players, BOARDS[self.num_players]
        special: tuple[str, ...] = (MERLIN, ASSASSIN)
        if self.options.roles == "standard":
            special = (MERLIN, PERCIVAL, ASSASSIN, MORGANA, *ADDED.get(players, ()))
        good = [role for role in special if role not in EVIL_ROLES]
        servants = players - evil - len(good)
        minions = evil - (len(special) - len(good))
        return (*good, *[SERVANT] * servants, *special[len(good) :], *[MINION] * minions)

    @property
    def seers(self) -> frozenset[str]:
        return frozenset(self.role_list) & {MERLIN, PERCIVAL}

    @property
    def promised(self) -> tuple[tuple[Action, ...], ...]:
        return (APPROVE, REJECT), (SUCCESS, FAIL)

    @property
    def team_sizes(self) -> tuple[int, ...]:
        """Members of the team of each mission."""
        return BOARDS[self.num_players][1]

    def fails_needed(self, mission: int) -> int:
        """Return the `fail` cards that make a mission fail; missions count from 0."""
        # The rule book: two for the fourth mission of seven or more players.
        return 2 if mission == 3 and self.num_players >= 7 else 1

    def _all_actions(self) -> Iterable[Action]:
        seats = range(self.num_players)
        for size in sorted(set(self.team_sizes)):
            yield from map(Propose, combinations(seats, size))
        yield from (APPROVE, REJECT, SUCCESS, FAIL, PASS)
        yield from map(Assassinate, seats)
        yield from self._statements()

    @cached_property
    def proposals(self) -> tuple[ActionSet, ...]:
        """All teams of the size that each mission has."""
        teams = (map(Propose, combinations(range(self.num_players), n)) for n in self.team_sizes)
        return tuple(self.actions.subset(each).complete() for each in teams)

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action is the guess of the Assassin, which ends the game."""
        return isinstance(action, Assassinate)

    def initial_state(self) -> AvalonState:
        return AvalonState(self)


class AvalonState(HiddenRolesState):
    """A position: the results of the missions, the leader and the current proposal."""

    game: Avalon

    def __init__(self, game: Avalon) -> None:
        super().__init__(game)
        self.leader = 0
        self.results: tuple[bool, ...] = ()
        """Results of the finished missions: True for success."""
        self.rejected = 0
        """Rejected proposals of the current mission."""
        self.team: tuple[int, ...] = ()
        """The proposed team."""

    def _legal_actions(self, player: int) -> ActionSet:
        match self.phase:
            case "propose":
                return self.game.proposals[len(self.results)]
            case "talk":
                return self.game.talk_actions
            case "vote":
                return self.game.actions.subset((APPROVE, REJECT))
            case "mission":
                # Not kept on the game: its caches would show that an evil player is on a team.
                cards = (SUCCESS, FAIL) if self.dealt[player] in EVIL_ROLES else (SUCCESS,)
                return self.game.actions.subset(cards)
            case _:
                return self.game.actions.subset(map(Assassinate, self._seats_of(GOOD)))

    def _seats_of(self, team: int) -> tuple[int, ...]:
        return tuple(seat for seat, other in enumerate(self.teams()) if other == team)

    def _start(self) -> None:
        for seat, role in enumerate(self.dealt):
            if role in SIGHT:
                kind, visible = SIGHT[role]
                # A role does not see itself.
                seen = (s for s, other in enumerate(self.dealt) if other in visible and s != seat)
                self.log.append(SecretSeen(seat, tuple(seen), kind))
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
                self._vote(tuple(action == APPROVE for action in phase.values()))
            case Assassinate(seat):
                self._guess(seat)
            case _:
                self._play({seat: action == FAIL for seat, action in phase.items()})

    def _propose(self, seats: tuple[int, ...]) -> None:
        self.team = seats
        mission, attempt = len(self.results) + 1, self.rejected + 1
        self.log.append(TeamProposed(self.leader, mission, attempt, seats))
        # The next player leads, whatever becomes of this proposal.
        self.leader = (self.leader + 1) % self.game.num_players
        self._discuss(tuple(range(self.game.num_players)))

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
            self._end(EVIL)
        elif self.results.count(True) < 3:
            self._begin_proposal()
        # The last chance of evil.
        else:
            assassin = self.dealt.index(ASSASSIN)
            self.log.append(EvilRevealed(self._seats_of(EVIL), assassin))
            self._begin("assassinate", (assassin,))

    def _guess(self, seat: int) -> None:
        correct = self.dealt[seat] == MERLIN
        self.log.append(MerlinGuessed(self.dealt.index(ASSASSIN), seat, correct))
        self._end(EVIL if correct else GOOD)

    def reason(self) -> str:
        if self.rejected == MAX_PROPOSALS:
            return f"{MAX_PROPOSALS} proposals in a row were rejected: evil wins"
        if self.results.count(False) == 3:
            return "three missions failed: evil wins"
        if self.winner == EVIL:
            return "three missions succeeded, but the Assassin found Merlin: evil wins"
        return "three missions succeeded, and the Assassin did not find Merlin: good wins"
