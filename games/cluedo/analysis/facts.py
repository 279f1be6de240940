"""Typed facts of Cluedo's assessments, one model per kind; all amounts of information in bits."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

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


class QuestionFacts(CluedoFacts):
    """Expected information of a question and of the best legal question."""

    expected: float
    best: float
    best_question: list[str]
    """Suspect, weapon, room."""


class SuggestionFacts(QuestionFacts):
    """Facts of a question that was asked."""

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


class KnowledgeFacts(CluedoFacts):
    """Entropy of the envelope in one player's view, after the deal and at the end."""

    entropy_dealt: float
    entropy_end: float
