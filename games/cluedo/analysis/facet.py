"""Exact knowledge and judgements of Cluedo: a facet of the game."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from arena import Action, ActionValues, Assessment, Comment, GameAnalysis, State, Step
from games.cluedo.analysis.action_values import action_values
from games.cluedo.analysis.assessor import CluedoAssessor
from games.cluedo.analysis.measures import FACTS, MEASURES
from games.cluedo.base import CluedoBase
from games.cluedo.inference.determinization import resample
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.state import CluedoState
from games.cluedo.text.comments import comment


class CluedoAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Cluedo."""

    game: CluedoBase

    facts = FACTS
    measures = MEASURES

    def knowledge(self, player: int) -> CluedoKnowledge:
        """Return the exact knowledge of `player` before the deal."""
        return CluedoKnowledge(self.game, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> CluedoAssessor:
        return CluedoAssessor(self.game, players, kinds)

    def action_values(self, state: State, actions: Collection[Action]) -> ActionValues | None:
        assert isinstance(state, CluedoState)
        return action_values(state, actions) if state.hands else None

    def comment(self, assessment: Assessment) -> Comment | None:
        return comment(assessment)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        return resample(self.game, history, player, rng)
