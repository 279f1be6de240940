"""Record of one seat during a game, and the assessments of its single decisions.

An assessment has facts and contributions to the measures. A measure for comparisons must not move
because games get shorter or longer. So each is taken in the same position: against the best choice
or a random one there, or separately for positions that are equally far (`_stage`) or equally hard
(`Facts.candidates`). The others only serve rewards and summaries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from arena import Assessment, DecisionKind, Ply, WeightedSum
from games.cluedo.analysis.measures import STAGES, TURNS
from games.cluedo.analysis.position_analysis import (
    NEGLIGIBLE,
    AccusationFacts,
    AccusationOdds,
    AnswerFacts,
    MissedAccusationFacts,
    RefutationFacts,
    SkippedQuestionFacts,
    SuggestionFacts,
    TurnFacts,
    UnusedCertaintyFacts,
    leaked_bits,
    refutation_facts,
)
from games.cluedo.inference.constraints import Constraints
from games.cluedo.inference.counting import DealCount
from games.cluedo.inference.information import AnswerDistribution, QuestionValues
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import Show, Suggest


@dataclass(slots=True)
class AccusationOpportunity:
    """A decision at which accusing was legal."""

    ply: int
    ends_turn: bool
    constraints: Constraints
    """What the player knew at the time."""
    provable: bool | None
    """Whether only one envelope was possible; None until it is computed."""

    def is_provable(self) -> bool:
        """Return whether only one envelope was possible."""
        if self.provable is None:
            # Entropy 0 means one envelope; the constraints are those of that decision.
            self.provable = DealCount(self.constraints).entropy() < NEGLIGIBLE
        return self.provable


@dataclass(slots=True)
class SeatHistory:
    """Record of one seat, updated by the assessor."""

    knowledge: CluedoKnowledge
    entropy_dealt: float | None = None
    """Entropy of the envelope after the deal, in bits, if it is needed."""
    own_turns: int = 0
    """Number of own turns so far."""
    latest_turn: int = 0
    """The game's number of the latest own turn."""
    open_questions: Sequence[Suggest] = ()
    """The questions that it could ask last in this turn; empty as soon as it has asked one."""
    opportunities: list[AccusationOpportunity] = field(default_factory=list)
    accused: bool = False

    @property
    def provable(self) -> bool:
        """Whether only one envelope is possible now."""
        return self.knowledge.entropy() < NEGLIGIBLE

    def provable_opportunities(self) -> list[AccusationOpportunity]:
        """Return the decisions at which the envelope was provable."""
        # Knowledge never shrinks, so these are the last decisions of the list. A binary search
        # counts the deals at a few decisions only.
        if not self.opportunities or not self.opportunities[-1].is_provable():
            return []
        first = bisect_left(self.opportunities, True, key=AccusationOpportunity.is_provable)
        return self.opportunities[first:]

    @property
    def turns_passed(self) -> int:
        """Number of own turns that the player ended although the envelope was provable."""
        return sum(opportunity.ends_turn for opportunity in self.provable_opportunities())


# Turns and accusations


def judge_turn(ply: Ply, seat: SeatHistory) -> Assessment:
    """Record the entropy at the start of a turn."""
    entropy = seat.knowledge.entropy()
    # Each turn adds weight 1 to the bits per turn; answers add the bits.
    measurements = {"bits_per_turn": WeightedSum(0.0)}
    if seat.own_turns in TURNS:
        measurements[f"entropy/{seat.own_turns}"] = WeightedSum(entropy)
    facts = TurnFacts(own_turn=seat.own_turns, entropy=entropy)
    return Assessment(ply.number, ply.player, "turn", facts.model_dump(), measurements)


def judge_accusation(
    ply: Ply, seat: SeatHistory, odds: AccusationOdds, correct: bool
) -> Assessment:
    """Assess an accusation by its probability in the accuser's view."""
    # The tolerance keeps rounding from turning an even case into a mistake.
    premature = odds.probability < odds.break_even - NEGLIGIBLE
    measurements = {
        "accusations_right": WeightedSum(float(correct)),
        "accusation_probability": WeightedSum(odds.probability),
        "premature": WeightedSum(float(premature)),
    }
    provable = seat.provable
    if provable:
        # A provable envelope that was accused rightly was not missed: total 0, weight 1.
        missed = WeightedSum(float(not correct))
        measurements["missed"] = missed
        measurements["turns_to_accuse"] = WeightedSum(seat.turns_passed)
        if not seat.turns_passed:
            measurements[_first_chance(seat)] = missed
    facts = AccusationFacts(
        probability=odds.probability,
        break_even=odds.break_even,
        correct=correct,
        provable=provable,
    )
    return Assessment(ply.number, ply.player, "accusation", facts.model_dump(), measurements)


def _first_chance(seat: SeatHistory) -> str:
    """Return the measure of the first turn in which the envelope was provable.

    Only the first turn counts: how many follow depends on when other players end the game.
    """
    return "missed_seen" if seat.knowledge.facts.name_envelope else "missed_deduced"


def judge_missed_accusation(ply: Ply, seat: SeatHistory) -> Assessment:
    """Assess a turn that ends although only one envelope is possible."""
    envelope, turns = next(iter(seat.knowledge.envelopes())), seat.turns_passed
    facts = MissedAccusationFacts(envelope=list(envelope), turns=turns)
    measurements = {"missed": WeightedSum(1.0)}
    # This turn is among the turns passed already.
    if turns == 1:
        measurements[_first_chance(seat)] = WeightedSum(1.0)
    return Assessment(ply.number, ply.player, "missed accusation", facts.model_dump(), measurements)


def judge_unused_certainty(player: int, seat: SeatHistory) -> Iterator[Assessment]:
    """Assess a seat that could have accused and never did."""
    provable = seat.provable_opportunities()
    if provable:
        facts = UnusedCertaintyFacts(turns=seat.turns_passed)
        measurements = {"turns_to_accuse": WeightedSum(facts.turns)}
        yield Assessment(
            provable[0].ply, player, "unused certainty", facts.model_dump(), measurements
        )


# Questions, answers and refutations


def _stage(seat: SeatHistory, entropy: float) -> str:
    """Return the measure of a question asked at this entropy of the envelope."""
    dealt = seat.knowledge.facts.entropy_dealt
    left = entropy / dealt if dealt else 0.0
    # An unlikely answer may raise the entropy above that of the deal: still the first stage.
    return next(stage.measure for stage in STAGES if left >= stage.least)


def judge_suggestion(ply: Ply, seat: SeatHistory, facts: SuggestionFacts) -> Assessment:
    """Assess a question by its expected information: the player chose it, unlike the answer."""
    measurements = {}
    if facts.best > NEGLIGIBLE:
        # Ratio of sums over a game: questions with much to gain weigh more.
        value = WeightedSum(facts.expected, facts.best)
        measurements = {"efficiency": value, _stage(seat, facts.entropy_before): value}
    return Assessment(ply.number, ply.player, "suggestion", facts.model_dump(), measurements)


def judge_skipped_question(ply: Ply, seat: SeatHistory) -> Iterator[Assessment]:
    """Assess a turn without a question: its gain is 0 of what the best question would give."""
    entropy = seat.knowledge.entropy()
    # A player that knows the envelope has nothing to ask.
    if entropy < NEGLIGIBLE:
        return
    best = QuestionValues(seat.knowledge).best(seat.open_questions)
    if best.bits > NEGLIGIBLE:
        facts = SkippedQuestionFacts(best=best.bits, best_question=list(best.suggestion.triple))
        measurements = {_stage(seat, entropy): WeightedSum(0.0, best.bits)}
        yield Assessment(
            ply.number, ply.player, "skipped question", facts.model_dump(), measurements
        )


def judge_answer(question: Ply, facts: SuggestionFacts, after: float) -> Assessment:
    """Assess the bits that the question gained; the difference to the expectation is luck.

    `after` is the entropy after the answer.
    """
    gained = facts.entropy_before - after
    measurements = {
        "bits": WeightedSum(gained),
        "luck": WeightedSum(gained - facts.expected),
        # Weight 0: the number of turns is counted by the kind "turn".
        "bits_per_turn": WeightedSum(gained, 0.0),
    }
    answer = AnswerFacts(
        gained=gained,
        expected=facts.expected,
        entropy_before=facts.entropy_before,
        entropy_after=after,
    )
    return Assessment(question.number, question.player, "answer", answer.model_dump(), measurements)


REFUTATIONS = ("refutation", "forced refutation")
"""Kinds of assessments of a shown card: with a choice among several cards, and without."""


def refutation_kind(choices: Sequence[str]) -> str:
    """Return the kind of a refutation by the cards that could be shown."""
    return REFUTATIONS[len(choices) == 1]


def judge_refutation(
    ply: Ply, action: Show, answers: AnswerDistribution, choices: Sequence[str]
) -> Assessment:
    """Assess the information that the shown card gives to the suggester."""
    leaks = leaked_bits(answers, ply.player, choices)
    facts = refutation_facts(leaks, action.card)
    measurements = {"leaked": WeightedSum(facts.leaked)}
    if facts.choices > 1:
        # Only with a choice: a forced card is no decision.
        excess = facts.leaked - facts.least
        measurements["excess_leak"] = WeightedSum(excess)
        # A card drawn at random has this expectation in every position. So a player that draws has
        # the ratio 1, and one that gives least has 0, in short and in long games.
        at_random = sum(leaks.values()) / len(leaks) - facts.least
        if at_random > NEGLIGIBLE:
            measurements["leak_ratio"] = WeightedSum(excess, at_random)
    kind = refutation_kind(choices)
    return Assessment(ply.number, ply.player, kind, facts.model_dump(), measurements)


# Values of decisions, for credit in training


def _question_value(assessment: Assessment) -> float | None:
    facts = SuggestionFacts.model_validate(assessment.facts)
    return facts.expected / facts.best if facts.best > NEGLIGIBLE else None


def _accusation_value(assessment: Assessment) -> float:
    # The expected value of +1 for a right and -1 for a wrong accusation: no luck in it.
    return 2 * AccusationFacts.model_validate(assessment.facts).probability - 1


def _refutation_value(assessment: Assessment) -> float:
    facts = RefutationFacts.model_validate(assessment.facts)
    return facts.least - facts.leaked


DECISION_KINDS = {
    "suggestion": DecisionKind(
        _question_value, "share", "expected bits of the question, of the best one", "questions"
    ),
    "skipped question": DecisionKind(
        lambda _: 0.0, "share", "a turn without a question gains nothing", "questions"
    ),
    "accusation": DecisionKind(
        _accusation_value, "", "2 p - 1, where p is the exact probability that it is right"
    ),
    "missed accusation": DecisionKind(
        lambda _: -1.0, "", "-1 for a turn that ends although the envelope was provable"
    ),
    "refutation": DecisionKind(
        _refutation_value, "bits", "minus the bits given away beyond the least", "refutations"
    ),
}
