"""Exact values of the questions and accusations that are open to the player in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from games.cluedo.analysis.accusation_threshold import break_even
from games.cluedo.analysis.facts import AccusationOdds, RefutationFacts, SuggestionFacts
from games.cluedo.inference.answer_distribution import AnswerDistribution
from games.cluedo.inference.information import QuestionValues, ScoredQuestion
from games.cluedo.inference.joint_answers import JointAnswers
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import PASSAGE, ROLL, Suggest
from games.cluedo.rules.state import CluedoState


class PositionAnalysis:
    """Values in one position, computed on demand, in the view of the player in turn.

    Neither the state nor the knowledge may change during the lifetime of this object.
    """

    def __init__(self, state: CluedoState, knowledge: CluedoKnowledge) -> None:
        self._state = state
        self._knowledge = knowledge

    @cached_property
    def _values(self) -> QuestionValues:
        return QuestionValues(self._knowledge)

    @cached_property
    def _best(self) -> ScoredQuestion:
        legal = self._state.legal_actions(self._state.player)
        return self._values.best(legal.of(Suggest))

    def answers(self, triple: Triple) -> AnswerDistribution | JointAnswers:
        """Return the distribution of the answers to a question."""
        return self._values.answers(triple)

    def suggestion(
        self, suggestion: Suggest, answers: AnswerDistribution | JointAnswers | None = None
    ) -> SuggestionFacts:
        """Return the facts of a question; `answers` are those to the same question, if known.

        Without them, questions of equal value are computed once.
        """
        expected = answers.information() if answers else self._values.bits(suggestion.triple)
        best = self._best
        # `QuestionValues.best` compares only some questions exactly: this one may be better.
        if expected > best.bits:
            best = ScoredQuestion(suggestion, expected)
        return SuggestionFacts(
            expected=expected,
            best=best.bits,
            best_question=list(best.suggestion.triple),
            entropy_before=self._values.position.entropy,
        )

    def odds(self, accused: Triple) -> AccusationOdds:
        """Return the probability of an envelope and the break-even probability."""
        state, player = self._state, self._state.player
        rivals = state.game.num_players - 1 - len(state.out)
        legal = state.legal_actions(player)
        # With dice or a passage a suggestion may still follow in this turn.
        may_suggest = bool(legal.of(Suggest)) or ROLL in legal or PASSAGE in legal
        return AccusationOdds(
            probability=self._knowledge.envelopes().get(accused, 0.0),
            break_even=break_even(self._knowledge, rivals, may_suggest),
        )


def leaked_bits(
    answers: AnswerDistribution | JointAnswers, refuter: int, choices: Iterable[str]
) -> dict[str, float]:
    """Return the information about the envelope that each of these cards would give, in bits.

    The suggester already knows who refutes, so that only the card itself counts.
    """
    entropies = answers.refutation(refuter)
    return {card: entropies.before_card - entropies.after_card[card] for card in choices}


def refutation_facts(leaks: Mapping[str, float], card: str) -> RefutationFacts:
    """Return the facts of the card that is shown, from the bits of each possible card."""
    return RefutationFacts(leaked=leaks[card], least=min(leaks.values()), choices=len(leaks))
