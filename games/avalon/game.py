"""Avalon as a `Game`: The Resistance with roles (D. Eskridge, Indie Boards and Cards, 2012).

The option `lady` is the rule book's "Lady of the Lake": the player to the right of the first leader
has the token; immediately after the missions 2, 3 and 4 its holder looks at the loyalty of a player
who has not held it, and passes it to this player.

J. Serrino, M. Kleiman-Weiner, D. Parkes, J. Tenenbaum, "Finding Friend and Foe in Multi-Agent
Games", NeurIPS 2019, study the game without talk; Light et al., "AvalonBench" (2023), with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Literal

from arena import Action, ActionSet
from games.avalon.moves import (
    APPROVE,
    ASSASSIN,
    EVIL,
    EVIL_ROLES,
    FAIL,
    GOOD,
    MAX_PROPOSALS,
    MERLIN,
    MINION,
    MORDRED,
    MORGANA,
    NUM_EVIL,
    OBERON,
    PERCIVAL,
    REJECT,
    SERVANT,
    SUCCESS,
    TEAM_SIZES,
    Assassinate,
    AvalonOptions,
    EvilRevealed,
    Examine,
    LadyPassed,
    LoyaltySeen,
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
from games.hidden_roles.game import PASS, HiddenRolesGame, HiddenRolesState


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
    summary = "missions of loyal servants and hidden traitors; find Merlin"
    Options = AvalonOptions
    options: AvalonOptions
    Text = "games.avalon.text:AvalonText"
    Analysis = "games.avalon.assessor:AvalonAnalysis"
    Arrays = "games.avalon.knowledge:AvalonArrays"
    View = "games.avalon.text:AvalonView"
    Talk = "games.hidden_roles.talk:RoleTalk"

    @cached_property
    def role_list(self) -> tuple[str, ...]:
        """The roles of the game, one per seat: good ones first."""
        special, evil = self.options.special_roles, NUM_EVIL[self.num_players]
        good_special = [role for role in special if role not in EVIL_ROLES]
        evil_special = [role for role in special if role in EVIL_ROLES]
        servants = self.num_players - evil - len(good_special)
        minions = evil - len(evil_special)
        return (*good_special, *[SERVANT] * servants, *evil_special, *[MINION] * minions)

    def team_of(self, role: str) -> int:
        """Return the team of a role: 0 for good, 1 for evil."""
        return EVIL if role in EVIL_ROLES else GOOD

    @property
    def seers(self) -> frozenset[str]:
        """Merlin and Percival; with the Lady of the Lake, her holder may have any role."""
        roles = frozenset(self.role_list)
        return roles if self.options.lady else roles & {MERLIN, PERCIVAL}

    @property
    def promised(self) -> tuple[tuple[Action, ...], ...]:
        return (APPROVE, REJECT), (SUCCESS, FAIL)

    def sight(self, role: str) -> tuple[Literal["evil", "merlin"] | None, frozenset[str]]:
        """Return the kind of secret that a role sees, and the roles of the seats that it sees."""
        evil = frozenset(EVIL_ROLES)
        if role == MERLIN:
            return "evil", evil - {MORDRED}
        if role == PERCIVAL:
            return "merlin", frozenset({MERLIN, MORGANA})
        if role in evil and role != OBERON:
            return "evil", evil - {OBERON}
        return None, frozenset()

    @property
    def team_sizes(self) -> tuple[int, ...]:
        """Members of the team of each mission."""
        return TEAM_SIZES[self.num_players]

    def fails_needed(self, mission: int) -> int:
        """Return the `fail` cards that make a mission fail; missions count from 0."""
        # The rule book: two for the fourth mission of seven or more players.
        return 2 if mission == 3 and self.num_players >= 7 else 1

    # Actions. The sets depend on public information only, see `Game`.

    def _all_actions(self) -> Iterable[Action]:
        for size in sorted(set(self.team_sizes)):
            yield from map(Propose, combinations(range(self.num_players), size))
        yield from (APPROVE, REJECT, SUCCESS, FAIL, PASS)
        if MERLIN in self.role_list:
            yield from map(Assassinate, range(self.num_players))
        if self.options.lady:
            yield from map(Examine, range(self.num_players))
        yield from self._statements()

    @cached_property
    def _proposals(self) -> dict[int, ActionSet]:
        return {
            size: self.actions.subset(
                map(Propose, combinations(range(self.num_players), size))
            ).complete()
            for size in set(self.team_sizes)
        }

    def proposals(self, mission: int) -> ActionSet:
        """Return all teams of the size that a mission has; missions count from 0."""
        return self._proposals[self.team_sizes[mission]]

    @cached_property
    def vote_actions(self) -> ActionSet:
        """The two votes on a team."""
        return self.actions.subset((APPROVE, REJECT)).complete()

    @cached_property
    def card_actions(self) -> tuple[ActionSet, ActionSet]:
        """The mission cards of each team: good players have one."""
        # Both at once: a set made on first use would show that an evil player is on a team.
        return (
            self.actions.subset((SUCCESS,)).complete(),
            self.actions.subset((SUCCESS, FAIL)).complete(),
        )

    def guesses(self, seats: Sequence[int]) -> ActionSet:
        """Return the guesses of the Assassin: one of these seats."""
        return self.actions.subset(map(Assassinate, seats))

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
        self.talks = 0
        """Rounds of statements on the current proposal that are over."""
        self.ladies: tuple[int, ...] = (game.num_players - 1,) if game.options.lady else ()
        """Holders of the Lady of the Lake, the present one last; () without the option."""
        self.ending = ""

    def _legal_actions(self, player: int) -> ActionSet:
        match self.phase:
            case "propose":
                return self.game.proposals(len(self.results))
            case "talk":
                return self.game.talk_actions
            case "vote":
                return self.game.vote_actions
            case "mission":
                return self.game.card_actions[self.game.team_of(self.dealt[player])]
            case "lady":
                others = (seat for seat in range(self.game.num_players) if seat not in self.ladies)
                return self.game.actions.subset(map(Examine, others))
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
            case Examine(seat):
                self._examine(seat)
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
        phase = "talk" if self.talks < self.game.talk_rounds else "vote"
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
            if self.ladies and len(self.results) > 1:
                self._begin("lady", self.ladies[-1:])
            else:
                self._begin_proposal()
        # The last chance of evil; without Merlin there is nothing to guess.
        elif MERLIN in self.dealt:
            assassin = self.dealt.index(ASSASSIN)
            self.log.append(EvilRevealed(self._seats_of(EVIL), assassin))
            self._begin("assassinate", (assassin,))
        else:
            self.ending = "three missions succeeded: good wins"
            self._end(GOOD)

    def _examine(self, seat: int) -> None:
        holder, is_evil = self.ladies[-1], self.game.team_of(self.dealt[seat]) == EVIL
        self.ladies += (seat,)
        self.log.append(LadyPassed(holder, seat))
        self.log.append(LoyaltySeen(holder, seat, is_evil))
        self._begin_proposal()

    def _guess(self, seat: int) -> None:
        correct = self.dealt[seat] == MERLIN
        self.log.append(MerlinGuessed(self.dealt.index(ASSASSIN), seat, correct))
        found = "but the Assassin found Merlin: evil wins"
        missed = "and the Assassin did not find Merlin: good wins"
        self.ending = f"three missions succeeded, {found if correct else missed}"
        self._end(EVIL if correct else GOOD)

    def reason(self) -> str:
        return self.ending


def secrets(game: Avalon, roles: tuple[str, ...]) -> list[SecretSeen]:
    """Return what each role sees after the deal, in the order of the seats."""
    events = []
    for seat, role in enumerate(roles):
        kind, visible = game.sight(role)
        if kind:
            # A role does not see itself.
            seen = (other for other, its in enumerate(roles) if its in visible and other != seat)
            events.append(SecretSeen(seat, tuple(seen), kind))
    return events
