"""Exact knowledge, judgements and other worlds of Cluedo: a facet of the game."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from arena import (
    Action,
    Assessment,
    Comment,
    GameAnalysis,
    Knowledge,
    Step,
)
from arena.core.text import bits_text, percentage
from games.cluedo.analysis.assessor import CluedoAssessor
from games.cluedo.analysis.judgements import DECISION_KINDS, JUDGEMENTS
from games.cluedo.analysis.measures import FACTS, MEASURES
from games.cluedo.inference.information import QuestionValues
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import Accuse, DealCards, Show, Suggest
from games.cluedo.rules.setting import CluedoSetting
from games.cluedo.rules.state import CluedoState


class CluedoAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Cluedo."""

    has_sheet = True

    game: CluedoSetting

    facts = FACTS
    measures = MEASURES
    decision_kinds = DECISION_KINDS
    is_judged_by_default = True
    knowledge_type = CluedoKnowledge
    assessor_type = CluedoAssessor

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the comment on an assessment.

        None if there is nothing to say, or if another kind of assessment says it of the same ply.
        """
        kind = JUDGEMENTS.get(assessment.kind)
        return kind.of(assessment).comment() if kind else None

    def consequences(self, knowledge: Knowledge, actions: Collection[Action]) -> dict[Action, str]:
        """Return the expected information of questions and the chances of accusations."""
        assert isinstance(knowledge, CluedoKnowledge)
        questions, envelopes = QuestionValues(knowledge), knowledge.envelopes()
        # Rounded, so that equal values stay in the order of the game.
        values: dict[Action, float] = {}
        for action in actions:
            if isinstance(action, Suggest):
                values[action] = round(questions.bits(action.triple), 9)
            elif isinstance(action, Accuse):
                values[action] = round(envelopes.get(action.triple, 0.0), 9)
        return {
            action: f"right with probability {percentage(value)}"
            if isinstance(action, Accuse)
            else f"{bits_text(value)} of information expected"
            for action, value in sorted(values.items(), key=lambda item: -item[1])
        }

    def resample(self, history: Sequence[Step], player: int, rng: random.Random) -> list[Step]:
        """Return the same public history over another deal that `player` considers possible.

        All actions stay the same, except for the cards that other players show each other: these
        are drawn again among the cards that the new deal allows.
        """
        if not history:
            return []
        # First pass, over the real history: the events that the player has witnessed.
        state = CluedoState(self.game).apply_all(history)
        # Without a refuter model every consistent deal may be drawn.
        witnessed = state.log.witnessed[player]
        knowledge = CluedoKnowledge.after(self.game, player, witnessed, "logic")
        # Second pass, over the new deal. It agrees with every "cannot refute" and every showing, so
        # each public action is legal again, and the same seats refute.
        state, steps = CluedoState(self.game), list[Step]()
        for step in history:
            action = step.action
            if isinstance(action, DealCards):
                action = knowledge.sample(rng)
            # A card that the player showed or was shown is known to it and stays.
            elif isinstance(action, Show) and player not in (step.player, state.player):
                action = rng.choice(state.legal_actions(step.player))
            steps.append(Step(step.player, action))
            state.apply(step.player, action)
        return steps
