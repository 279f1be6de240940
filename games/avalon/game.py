"""Avalon as a `Game`: The Resistance with roles (D. Eskridge, Indie Boards and Cards, 2012).

J. Serrino, M. Kleiman-Weiner, D. Parkes, J. Tenenbaum, "Finding Friend and Foe in Multi-Agent
Games", NeurIPS 2019, study the game without talk; Light et al., "AvalonBench" (2023), with it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import (
    Action,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Observation,
    TextLevel,
)
from games.avalon import text
from games.avalon.assessor import MEASURES, AvalonAssessor, comment
from games.avalon.base import AvalonBase
from games.avalon.moves import FAIL, SUCCESS, PlayCard
from games.avalon.notes import AvalonNotes
from games.avalon.options import MAX_PROPOSALS
from games.avalon.posterior import AvalonPosterior
from games.avalon.state import AvalonState
from games.hidden_roles.rules import HiddenRolesGame, HiddenRolesState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from games.avalon.view import AvalonView


class Avalon(AvalonBase, HiddenRolesGame):
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

    measures = MEASURES

    # Positions and knowledge

    def initial_state(self) -> AvalonState:
        return AvalonState(self)

    def knowledge(self, player: int) -> AvalonPosterior:
        return AvalonPosterior(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> AvalonAssessor:
        """Return a new assessor of one game; its kinds are `proposal`, `vote` and `knowledge`."""
        return AvalonAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment:
        return comment(assessment)

    def new_notes(self, player: int) -> AvalonNotes:
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

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        return text.situation(self, observation, level)

    def synonyms(self) -> Mapping[str, str]:
        return {
            **super().synonyms(),
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
