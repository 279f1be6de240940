"""Facts of Cluedo's assessments, and exact values of the decisions of the player in turn.

There is one typed model of facts per kind of assessment; all amounts of information are in bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from games.cluedo.inference.information import (
    AnswerDistribution,
    QuestionValues,
    ScoredQuestion,
    break_even,
)
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import PASSAGE, ROLL, Suggest
from games.cluedo.rules.state import CluedoState

NEGLIGIBLE = 1e-9
"""A smaller amount of bits, or a smaller difference of probabilities, counts as zero."""


class CluedoFacts(BaseModel):
    """Base of the facts of one kind of assessment; `model_dump()` gives `Assessment.facts`."""

    model_config = ConfigDict(frozen=True)


class TurnFacts(CluedoFacts):
    """Facts at the start of a turn."""

    own_turn: int
    """The number of this turn among the player's own turns, from 1."""
    entropy: float
    """Entropy of the envelope in the player's view."""


class SuggestionFacts(CluedoFacts):
    """Expected information of a question that was asked, and of the best legal question."""

    expected: float
    best: float
    best_question: list[str]
    """Suspect, weapon, room."""
    entropy_before: float


class SkippedQuestionFacts(CluedoFacts):
    """Facts of a turn in which the player could ask and did not."""

    best: float
    best_question: list[str]
    """Suspect, weapon, room."""


class AnswerFacts(CluedoFacts):
    """Facts of the answer to a question."""

    gained: float
    """`entropy_before - entropy_after`; negative if an unlikely answer left more open."""
    expected: float
    entropy_before: float
    entropy_after: float


class AccusationOdds(CluedoFacts):
    """Probability that an accusation is right, and the probability above which accusing pays."""

    probability: float
    break_even: float


class AccusationFacts(AccusationOdds):
    """Facts of an accusation that was made."""

    correct: bool
    provable: bool
    """Whether only one envelope was possible in the accuser's view."""


class MissedAccusationFacts(CluedoFacts):
    """Facts of a turn that ended without an accusation although the envelope was provable."""

    envelope: list[str]
    turns: int
    """Own turns so far that ended like this."""


class RefutationFacts(CluedoFacts):
    """Information about the envelope that a shown card gave to the suggester."""

    leaked: float
    least: float
    """Of the card, among those that could be shown, that gives least."""
    choices: int
    """Number of cards that could be shown."""


class UnusedCertaintyFacts(CluedoFacts):
    """Facts of a player that could prove the envelope and never accused."""

    turns: int
    """Own turns that ended without an accusation since then."""


# Values of questions, accusations and cards to show


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

    def answers(self, triple: Triple) -> AnswerDistribution:
        """Return the distribution of the answers to a question."""
        return self._values.answers(triple)

    def suggestion(
        self, suggestion: Suggest, answers: AnswerDistribution | None = None
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
        probability = self._envelopes.get(accused, 0.0)
        return AccusationOdds(probability=probability, break_even=self._break_even)

    @cached_property
    def _envelopes(self) -> dict[Triple, float]:
        return self._knowledge.envelopes()

    @cached_property
    def _break_even(self) -> float:
        state, player = self._state, self._state.player
        rivals = state.game.num_players - 1 - len(state.out)
        legal = state.legal_actions(player)
        # With dice or a passage a suggestion may still follow in this turn.
        may_suggest = bool(legal.of(Suggest)) or ROLL in legal or PASSAGE in legal
        return break_even(self._knowledge, rivals, may_suggest)


def leaked_bits(
    answers: AnswerDistribution, refuter: int, choices: Iterable[str]
) -> dict[str, float]:
    """Return the information about the envelope that each of these cards would give, in bits.

    The suggester already knows who refutes, so that only the card itself counts.
    """
    entropies = answers.refutation(refuter)
    return {card: entropies.before_card - entropies.after_card[card] for card in choices}


def refutation_facts(leaks: Mapping[str, float], card: str) -> RefutationFacts:
    """Return the facts of the card that is shown, from the bits of each possible card."""
    return RefutationFacts(leaked=leaks[card], least=min(leaks.values()), choices=len(leaks))
