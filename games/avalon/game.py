"""Avalon as a `Game`: The Resistance with roles (D. Eskridge, Indie Boards and Cards, 2012).

J. Serrino, M. Kleiman-Weiner, D. Parkes, J. Tenenbaum, "Finding Friend and Foe in Multi-Agent
Games", NeurIPS 2019, study the game without talk; Light et al., "AvalonBench" (2023), with it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from arena import (
    WIN_RATE,
    Action,
    ActionSet,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Observation,
    Say,
    Speech,
    TextLevel,
)
from games.avalon import text
from games.avalon.assessor import MEASURES, AvalonAssessor, comment
from games.avalon.moves import APPROVE, FAIL, REJECT, SUCCESS, Assassinate, PlayCard, Propose
from games.avalon.notes import AvalonNotes
from games.avalon.options import (
    EVIL,
    EVIL_ROLES,
    GOOD,
    MAX_PROPOSALS,
    MERLIN,
    MINION,
    MORDRED,
    MORGANA,
    NUM_EVIL,
    OBERON,
    PERCIVAL,
    SERVANT,
    TEAM_SIZES,
    AvalonOptions,
)
from games.avalon.posterior import AvalonPosterior
from games.avalon.state import AvalonState
from games.hidden_roles.assessor import ROLE_FACTS
from games.hidden_roles.rules import PASS, SPEAK, HiddenRolesGame, HiddenRolesState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from games.avalon.view import AvalonView


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
    summary = "missions of loyal servants and hidden traitors; find Merlin"
    Options = AvalonOptions
    options: AvalonOptions
    speech: ClassVar[tuple[type[Speech], ...]] = (Say,)
    return_scale = WIN_RATE
    facts = ROLE_FACTS
    measures = MEASURES
    default_opponent = "deducer"
    default_bot = "deducer"

    @cached_property
    def num_players(self) -> int:
        """Number of seats."""
        return self.options.players

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
    def statements(self) -> ActionSet:
        """Silence, or a statement."""
        return self.actions.subset((PASS,), (SPEAK,)).complete()

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

    # Positions and knowledge

    def initial_state(self) -> AvalonState:
        """Return the position before the deal."""
        return AvalonState(self)

    def knowledge(self, player: int) -> AvalonPosterior:
        """Return the exact knowledge of `player` before the deal."""
        return AvalonPosterior(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> AvalonAssessor:
        """Return a new assessor of one game; its kinds are `proposal`, `vote` and `knowledge`."""
        return AvalonAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment:
        return comment(assessment)

    def new_notes(self, player: int) -> AvalonNotes:
        """Return empty notes of `player`."""
        return AvalonNotes(self, player)

    def redraw(
        self,
        before: HiddenRolesState,
        other: HiddenRolesState,
        phase: Mapping[int, Action],
        player: int,
        rng: random.Random,
    ) -> Mapping[int, Action]:
        """Draw a finished phase again: other evil members may have played the `fail` cards."""
        if not isinstance(next(iter(phase.values())), PlayCard):
            return phase
        fails = [seat for seat, action in phase.items() if action == FAIL and seat != player]
        evil = [seat for seat in phase if FAIL in other.legal_actions(seat) and seat != player]
        chosen = rng.sample(evil, len(fails))
        return {
            seat: action if seat == player else FAIL if seat in chosen else SUCCESS
            for seat, action in phase.items()
        }

    # Texts and views

    def new_view(self, seat: int | None) -> AvalonView:
        """Return a view of the table: missions, and a row for each player."""
        from games.avalon.view import AvalonView

        return AvalonView(self)

    def rules(self) -> str:
        return text.rules(self)

    def narrate(self, event: Event) -> str:
        return text.narrate(self, event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        return text.describe(self, observation, level, since)

    def synonyms(self) -> Mapping[str, str]:
        return {
            **{f"seat {seat}": f"Player {seat}" for seat in range(self.num_players)},
            **{f"P{seat}": f"Player {seat}" for seat in range(self.num_players)},
            **{"yes": "approve", "accept": "approve", "no": "reject", "disapprove": "reject"},
            **{"sabotage": "fail", "succeed": "success", "nominate": "propose"},
        }

    # Arrays

    @cached_property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        players = self.num_players
        return {
            "player": ArraySpec(shape=(players,), low=0, high=1),
            "role": ArraySpec(shape=(len(self.distinct_roles),), low=0, high=1),
            "seen": ArraySpec(shape=(2, players), low=0, high=1),
            "leader": ArraySpec(shape=(players,), low=0, high=1),
            "teams": ArraySpec(shape=(5, MAX_PROPOSALS, players), low=0, high=1),
            "votes": ArraySpec(shape=(5, MAX_PROPOSALS, players), low=-1, high=1),
            "results": ArraySpec(shape=(5,), low=-1, high=1),
            "fails": ArraySpec(shape=(5,), low=0, high=players),
            "revealed": ArraySpec(shape=(players,), low=0, high=1),
        }

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the arrays; seats are columns, and missions and proposals are rows.

        `seen` has the seats that this role sees: row 0 as evil, row 1 as Merlin or Morgana. Votes
        and results are 1 for approval or success, -1 for rejection or failure, 0 if still open.
        """
        import numpy as np  # Imported late: listing the games must stay fast.

        notes: AvalonNotes = observation.notes  # type: ignore[assignment]
        arrays = {name: np.zeros(spec.shape, np.int8) for name, spec in self.array_specs.items()}
        arrays["player"][observation.player] = 1
        arrays["leader"][notes.leader] = 1
        if notes.role:
            arrays["role"][self.distinct_roles.index(notes.role)] = 1
        if notes.secret:
            arrays["seen"][int(notes.secret.kind == "merlin"), list(notes.secret.seats)] = 1
        for proposal in notes.proposals:
            place = proposal.mission - 1, proposal.attempt - 1
            arrays["teams"][place][list(proposal.seats)] = 1
            if proposal.votes:
                arrays["votes"][place] = np.where(proposal.votes, 1, -1)
        for mission in notes.missions:
            arrays["results"][mission.mission - 1] = 1 if mission.succeeded else -1
            arrays["fails"][mission.mission - 1] = mission.fails
        if notes.revealed:
            arrays["revealed"][list(notes.revealed.seats)] = 1
        return arrays
