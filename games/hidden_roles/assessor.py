"""Assessment of hidden-role games by exact knowledge: choices against what could be known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from arena import Action, Assessment, Comment, Outcome, Ply, WeightedSum
from games.hidden_roles.base import HiddenRolesBase, RolesRevealed
from games.hidden_roles.posterior import RolePosterior
from games.hidden_roles.rules import HiddenRolesState


@dataclass(frozen=True, slots=True)
class JudgedChoice:
    """Judgement of a decision: the probability of what was chosen, and of the best choice."""

    kind: str
    probability: float
    best: float
    measurements: Mapping[str, WeightedSum] = field(default_factory=dict)


class RoleAssessor(ABC):
    """Assessor of one game, ply by ply from the deal on; a game subclasses it to judge choices.

    Args:
        game: The game that is played.
        players: The seats to assess; None means all.
        kinds: The kinds of assessments to make; None means all.
    """

    posterior: ClassVar[type[RolePosterior]]
    """The class of the game's posterior."""

    def __init__(
        self,
        game: HiddenRolesBase,
        players: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        state = game.initial_state()
        assert isinstance(state, HiddenRolesState)
        self._state = state
        self._kinds = kinds
        seats = range(game.num_players) if players is None else sorted(players)
        self._knowledge = {seat: self.posterior(game, seat) for seat in seats}
        self._dealt: dict[int, float] = {}
        self._latest_ply = 0

    @abstractmethod
    def judge(
        self, state: HiddenRolesState, knowledge: RolePosterior, action: Action
    ) -> JudgedChoice | None:
        """Judge an action of the seat that `knowledge` belongs to; None if there is nothing to."""

    def ply(self, ply: Ply) -> list[Assessment]:
        """Add the next ply; return its assessment, if there is one."""
        assessments = []
        knowledge = self._knowledge.get(ply.player)
        # Judged before the ply is applied, by what the seat knew when it decided.
        choice = knowledge and self.judge(self._state, knowledge, ply.decision.action)
        if choice and self._wants(choice.kind):
            assessments.append(
                Assessment(
                    ply.number,
                    ply.player,
                    choice.kind,
                    {"probability": choice.probability, "best": choice.best},
                    choice.measurements,
                )
            )
        self._state.apply(ply.player, ply.decision.action)
        self._latest_ply = ply.number
        for seat, known in self._knowledge.items():
            for event in ply.events:
                # The roles that are shown at the end are no deduction.
                if event.seen_by(seat) and not isinstance(event, RolesRevealed):
                    known.update(event)
            # The first ply is the deal.
            if seat not in self._dealt:
                self._dealt[seat] = known.entropy()
        return assessments

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the knowledge of each seat at the end; this changes nothing."""
        if not self._wants("knowledge") or not self._dealt:
            return []
        return [
            Assessment(
                self._latest_ply,
                seat,
                "knowledge",
                {"entropy_dealt": self._dealt[seat], "entropy_end": known.entropy()},
            )
            for seat, known in self._knowledge.items()
        ]

    def _wants(self, kind: str) -> bool:
        return self._kinds is None or kind in self._kinds


def choice_probabilities(assessment: Assessment) -> tuple[float, float]:
    """Return the probability of what a seat chose, and that of its best choice."""
    chosen, best = assessment.facts["probability"], assessment.facts["best"]
    assert isinstance(chosen, int | float) and isinstance(best, int | float)
    return chosen, best


def comment_knowledge(assessment: Assessment) -> Comment:
    """Return the knowledge of a seat at the end as text."""
    dealt, end = assessment.facts["entropy_dealt"], assessment.facts["entropy_end"]
    return Comment(f"Of {dealt:.1f} bits of uncertainty about the roles {end:.1f} are left.")
