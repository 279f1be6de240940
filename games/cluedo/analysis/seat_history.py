"""Record of one seat during a game, and the assessments of its single decisions.

An assessment has facts and contributions to the measures. A measure for comparisons must not move
because games get shorter or longer. So each is taken in the same position: against the best choice
or a random one there, or separately for positions that are equally far (`_stage`) or equally hard
(`Facts.candidates`). The others only serve rewards and summaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from arena import Assessment, Ply, WeightedSum
from games.cluedo.analysis.judgements import (
    NEGLIGIBLE,
    AccusationFacts,
    AnswerFacts,
    MissedAccusationFacts,
    RefutationFacts,
    SuggestionFacts,
    UnusedCertaintyFacts,
)
from games.cluedo.analysis.measures import STAGES, TURNS
from games.cluedo.inference.information import QuestionValues
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import EndTurn, Suggest


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
    provable_from: int | None = None
    """The ply of the first decision at which the envelope was provable and could be accused."""
    turns_passed: int = 0
    """Number of own turns that the player ended although the envelope was provable."""
    accused: bool = False

    def note_opportunity(self, ply: Ply) -> None:
        """Note a decision at which accusing is legal."""
        # Knowledge never shrinks: what is provable once stays so.
        if self.provable_from is None and self.knowledge.is_certain():
            self.provable_from = ply.number
        if self.provable_from is not None:
            self.turns_passed += isinstance(ply.decision.action, EndTurn)

    # Turns and accusations

    def judge_turn(self, ply: Ply) -> Assessment:
        """Record the entropy at the start of a turn."""
        entropy = self.knowledge.entropy()
        # Each turn adds weight 1 to the bits per turn; answers add the bits.
        measurements = {"bits_per_turn": WeightedSum(0.0)}
        if self.own_turns in TURNS:
            measurements[f"entropy/{self.own_turns}"] = WeightedSum(entropy)
        facts = {"own_turn": self.own_turns, "entropy": entropy}
        return Assessment(ply.number, ply.player, "turn", facts, measurements)

    def judge_accusation(
        self, ply: Ply, probability: float, break_even: float, correct: bool
    ) -> Assessment:
        """Assess an accusation by its probability in the accuser's view."""
        facts = AccusationFacts(probability, break_even, correct, self.provable_from is not None)
        measurements = {
            "accusations_right": WeightedSum(float(correct)),
            "accusation_probability": WeightedSum(probability),
            "premature": WeightedSum(float(facts.premature)),
        }
        if facts.provable:
            # A provable envelope that was accused rightly was not missed: total 0, weight 1.
            missed = WeightedSum(float(not correct))
            measurements["missed"] = missed
            measurements["turns_to_accuse"] = WeightedSum(self.turns_passed)
            if not self.turns_passed:
                measurements[self._first_chance] = missed
        return facts.assessment("accusation", ply.number, ply.player, measurements)

    @property
    def _first_chance(self) -> str:
        """The measure of the first turn in which the envelope was provable.

        Only the first turn counts: how many follow depends on when other players end the game.
        """
        return "missed_seen" if self.knowledge.facts.name_envelope else "missed_deduced"

    def judge_missed_accusation(self, ply: Ply) -> Assessment:
        """Assess a turn that ends although only one envelope is possible."""
        envelope, turns = next(iter(self.knowledge.envelopes())), self.turns_passed
        measurements = {"missed": WeightedSum(1.0)}
        # This turn is among the turns passed already.
        if turns == 1:
            measurements[self._first_chance] = WeightedSum(1.0)
        facts = MissedAccusationFacts(list(envelope), turns)
        return facts.assessment("missed accusation", ply.number, ply.player, measurements)

    def judge_unused_certainty(self) -> Iterator[Assessment]:
        """Assess a seat that could have accused and never did."""
        if self.provable_from is not None:
            facts = UnusedCertaintyFacts(self.turns_passed)
            measurements = {"turns_to_accuse": WeightedSum(facts.turns)}
            player = self.knowledge.player
            yield facts.assessment("unused certainty", self.provable_from, player, measurements)

    # Questions and answers

    def _stage(self, entropy: float) -> str:
        """Return the measure of a question asked at this entropy of the envelope."""
        dealt = self.knowledge.facts.entropy_dealt
        left = entropy / dealt if dealt else 0.0
        # An unlikely answer may raise the entropy above that of the deal: still the first stage.
        return next(stage.measure for stage in STAGES if left >= stage.least)

    def judge_suggestion(self, ply: Ply, facts: SuggestionFacts) -> Assessment:
        """Assess a question by its expected information: the player did not choose the answer."""
        measurements = {}
        if facts.best > NEGLIGIBLE:
            # Ratio of sums over a game: questions with much to gain weigh more.
            value = WeightedSum(facts.expected, facts.best)
            measurements = {"efficiency": value, self._stage(facts.entropy_before): value}
        return facts.assessment("suggestion", ply.number, ply.player, measurements)

    def judge_skipped_question(self, ply: Ply) -> Iterator[Assessment]:
        """Assess a turn without a question: its gain is 0 of what the best question would give."""
        entropy = self.knowledge.entropy()
        # A player that knows the envelope has nothing to ask.
        if entropy < NEGLIGIBLE:
            return
        best = QuestionValues(self.knowledge).best(self.open_questions)
        if best.bits > NEGLIGIBLE:
            question: list[JsonValue] = [*best.suggestion.triple]
            facts: dict[str, JsonValue] = {"best": best.bits, "best_question": question}
            measurements = {self._stage(entropy): WeightedSum(0.0, best.bits)}
            yield Assessment(ply.number, ply.player, "skipped question", facts, measurements)

    def judge_answer(self, question: Ply, asked: SuggestionFacts) -> Assessment:
        """Assess the bits that the question gained; the difference to the expectation is luck."""
        after = self.knowledge.entropy()
        gained = asked.entropy_before - after
        measurements = {
            "bits": WeightedSum(gained),
            "luck": WeightedSum(gained - asked.expected),
            # Weight 0: the number of turns is counted by the kind "turn".
            "bits_per_turn": WeightedSum(gained, 0.0),
        }
        facts = AnswerFacts(gained, asked.expected, asked.entropy_before, after)
        return facts.assessment("answer", question.number, question.player, measurements)


REFUTATIONS = ("refutation", "forced refutation")
"""Kinds of assessments of a shown card: with a choice among several cards, and without."""


def refutation_kind(choices: Sequence[str]) -> str:
    """Return the kind of a refutation by the cards that could be shown."""
    return REFUTATIONS[len(choices) == 1]


def judge_refutation(ply: Ply, card: str, leaks: Mapping[str, float]) -> Assessment:
    """Assess the information that the shown card gives; `leaks` has the bits of each card."""
    facts = RefutationFacts(leaks[card], min(leaks.values()), len(leaks))
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
    return facts.assessment(refutation_kind([*leaks]), ply.number, ply.player, measurements)
