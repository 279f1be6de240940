"""Analysis of hidden-role games by exact knowledge: judged choices, and worlds drawn again."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from arena import CHANCE, Action, Assessment, Comment, GameAnalysis, Outcome, Ply, Step, WeightedSum
from arena.core.analysis import Assessor, Fact, JointAssessor, SeatAssessor
from arena.evaluation.talk import STATEMENT_FACTS, comment_talk
from games.hidden_roles.game import DealRoles, HiddenRolesGame, HiddenRolesState, RolesRevealed
from games.hidden_roles.knowledge import RolePosterior
from games.hidden_roles.talk import RoleTalk
from games.hidden_roles.talk_assessor import ROLE_TALK_KINDS, RoleTalkAssessor

ROLE_FACTS: Mapping[str, Fact] = {
    "probability": Fact("probability", "exact probability, in this seat's view, of what it chose"),
    "best": Fact("probability", "the highest such probability of a legal choice", True),
    **STATEMENT_FACTS,
    "literal_bits": Fact("bits", "how far the statement moves literal listeners to the truth"),
    "level1_bits": Fact("bits", "how far the statement moves cautious listeners to the truth"),
    "entropy_dealt": Fact("bits", "uncertainty about the roles after the deal", True),
    "entropy_end": Fact("bits", "uncertainty about the roles at the end, before they are shown"),
}


@dataclass(frozen=True, slots=True)
class JudgedChoice:
    """Judgement of a decision: the probability of what was chosen, and of the best choice."""

    kind: str
    probability: float
    best: float
    measurements: Mapping[str, WeightedSum] = field(default_factory=dict)


class RoleAssessor(SeatAssessor):
    """Assessor of one game; the analysis of the game judges the choices."""

    def __init__(
        self,
        analysis: HiddenRolesAnalysis,
        players: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        super().__init__(analysis.game, players, kinds)
        state = analysis.game.initial_state()
        assert isinstance(state, HiddenRolesState)
        self._state, self._judge = state, analysis.judge
        self._knowledge = {seat: analysis.knowledge(seat) for seat in self._assessed}
        self._dealt: dict[int, float] = {}

    def ply(self, ply: Ply) -> list[Assessment]:
        """Add the next ply; return its assessment, if there is one."""
        assessments = []
        knowledge = self._knowledge.get(ply.player)
        # Judged before the ply is applied, by what the seat knew when it decided.
        choice = knowledge and self._judge(self._state, knowledge, ply.decision.action)
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
            self._knowledge_of(seat, self._dealt[seat], known.entropy())
            for seat, known in self._knowledge.items()
        ]


def choice_probabilities(assessment: Assessment) -> tuple[float, float]:
    """Return the probability of what a seat chose, and that of its best choice."""
    chosen, best = assessment.facts["probability"], assessment.facts["best"]
    assert isinstance(chosen, int | float) and isinstance(best, int | float)
    return chosen, best


class HiddenRolesAnalysis(GameAnalysis, ABC):
    """Exact posterior of the roles, and other worlds drawn from it."""

    has_sheet = True

    game: HiddenRolesGame

    facts = ROLE_FACTS
    posterior: ClassVar[type[RolePosterior]]
    """The class of the game's posterior."""

    def knowledge(self, player: int) -> RolePosterior:
        """Return the posterior of `player` over the roles, before the deal."""
        return self.posterior(self.game, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> Assessor:
        """Return a new assessor of one game.

        Its kinds are those of `judge`, those of talk, and `knowledge`.
        """
        choices = RoleAssessor(self, players, kinds)
        talk = self.game.talk
        if (
            talk is None
            or not self.game.talk_rounds
            or (kinds is not None and not ROLE_TALK_KINDS & {*kinds})
        ):
            return choices
        assert isinstance(talk, RoleTalk)
        return JointAssessor((choices, RoleTalkAssessor(self.game, talk, players, kinds)))

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return an assessment as text; None if there is nothing to report."""
        if assessment.kind in ROLE_TALK_KINDS:
            return comment_talk(assessment)
        if assessment.kind != "knowledge":
            return self.comment_choice(assessment)
        dealt, end = assessment.facts["entropy_dealt"], assessment.facts["entropy_end"]
        return Comment(f"Of {dealt:.1f} bits of uncertainty about the roles {end:.1f} are left.")

    @abstractmethod
    def judge(
        self, state: HiddenRolesState, knowledge: RolePosterior, action: Action
    ) -> JudgedChoice | None:
        """Judge an action of the seat that `knowledge` belongs to; None if there is nothing to."""

    @abstractmethod
    def comment_choice(self, assessment: Assessment) -> Comment:
        """Return the assessment of a choice as text."""

    @abstractmethod
    def redraw(
        self,
        before: HiddenRolesState,
        other: HiddenRolesState,
        phase: Mapping[int, Action],
        player: int,
        rng: random.Random,
    ) -> Mapping[int, Action]:
        """Draw the actions of a finished phase in another world that looks the same to `player`.

        Args:
            before: The true position at the beginning of the phase.
            other: The same position in the other world.
            phase: The true action of each seat.
            player: The seat that must not see a difference; it takes the same action.
            rng: Source of the draws.
        """

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the roles from the posterior of `player`, and then all hidden actions again."""
        # Before the deal there is nothing to draw again.
        if not history:
            return []
        roles = self._sample_roles(history, player, rng)
        state, other = self.game.initial_state(), self.game.initial_state()
        assert isinstance(state, HiddenRolesState) and isinstance(other, HiddenRolesState)
        steps: list[Step] = []
        while len(steps) < len(history):
            # A history is a sequence of phases; only the last one may be unfinished.
            size = len(state.to_act)
            batch = history[len(steps) : len(steps) + size]
            phase = {step.player: step.action for step in batch}
            if CHANCE in phase:
                drawn: Mapping[int, Action] = {CHANCE: DealRoles(roles)}
            elif len(batch) == size:
                drawn = self.redraw(state, other, phase, player, rng)
            else:
                drawn = _redraw_sealed(other, phase, player, rng)
            # In the true order of commitment, which no player can see.
            for step in batch:
                state.apply(step.player, step.action)
                other.apply(step.player, drawn[step.player])
                steps.append(Step(step.player, drawn[step.player]))
        return steps

    def _sample_roles(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> tuple[str, ...]:
        state = self.game.initial_state().apply_all(history)
        knowledge = self.knowledge(player)
        for event in state.log.witnessed[player]:
            knowledge.update(event)
        return knowledge.sample(rng)


def _redraw_sealed(
    other: HiddenRolesState, phase: Mapping[int, Action], player: int, rng: random.Random
) -> dict[int, Action]:
    """Draw the commitments of an unfinished phase again; only the player's own one is known."""
    drawn = {}
    # Statements are drawn too: silence is sealed as well.
    for seat, action in phase.items():
        legal = other.legal_actions(seat)
        spoken = [offer.sample(rng) for offer in legal.speech]
        drawn[seat] = action if seat == player else rng.choice([*legal, *spoken])
    return drawn
