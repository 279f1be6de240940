"""Assessment of bids and challenges by the exact knowledge of the seat that made them."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import JsonValue

from arena import (
    CHANCE,
    Action,
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Outcome,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import Assessor, DecisionKind, Fact, Knowledge, SeatAssessor
from arena.core.text import per_cent, percentage
from arena.evaluation.talk import STATEMENT_FACTS, STATEMENT_MEASURES, with_talk
from games.liars_dice.game import LiarsDice, LiarsDiceState
from games.liars_dice.knowledge import LiarsDiceKnowledge, exact_probability
from games.liars_dice.moves import Challenge, DiceBid, SpotOn

FACTS: dict[str, Fact] = {
    "probability": Fact("%", "probability that the bid is true, given the bidder's own dice"),
    "last": Fact("%", "probability that the last bid is true, given own dice", of_position=True),
    "best": Fact("%", "probability of the likeliest higher bid", of_position=True),
    "exact": Fact("%", "probability that the last bid is exactly right", of_position=True),
}
"""Descriptions of the facts of assessments, by name."""

MEASURES: tuple[Measure, ...] = (
    Measure(
        "bid_probability",
        "probability of own bids",
        "probability",
        None,
        "Probability that a bid is true, given the bidder's own dice only; over bids.",
    ),
    Measure(
        "impossible_bids",
        "impossible bids",
        "share",
        "lower",
        "Bids that the bidder's own dice show to be false, over bids of seats that had another "
        "legal action which could win.",
    ),
    Measure(
        "challenges_sound",
        "sound challenges",
        "share",
        "higher",
        "Challenges of bids that were at least as probably false as true, given the challenger's "
        "own dice; over challenges with a choice.",
    ),
    Measure(
        "challenges_missed",
        "missed challenges",
        "share",
        "lower",
        "Bids in answer to a bid that the own dice show to be false, so that a challenge would win "
        "for certain; over answers to such bids.",
    ),
    Measure(
        "spot_on_probability",
        "probability of own spot-on calls",
        "probability",
        "higher",
        "Probability that a bid called spot on is exactly right, given the caller's own dice only; "
        "over such calls.",
    ),
)


@dataclass(frozen=True, slots=True)
class DiceOdds:
    """Exact probabilities before a decision, given the own dice."""

    last: float | None
    """That the last bid is true; None if there is none."""
    best: float | None
    """That the likeliest higher bid is true; None if no higher bid exists."""
    exact: float | None
    """That the last bid is exactly right; None if there is none, or it cannot be called so."""

    @classmethod
    def of(cls, knowledge: LiarsDiceKnowledge) -> DiceOdds:
        """Compute the odds of the seat that must act."""
        notes = knowledge.notes
        bid, may_call = notes.last_bid, notes.game.options.spot_on
        return cls(
            last=None if bid is None else knowledge.probability(bid),
            best=max(map(knowledge.probability, notes.raises), default=None),
            exact=exact_probability(notes, bid) if bid and may_call else None,
        )

    @property
    def greatest(self) -> float:
        """Probability that the best action wins at once."""
        challenge = 0.0 if self.last is None else 1 - self.last
        return max(self.best or 0.0, challenge, self.exact or 0.0)

    def facts(self) -> dict[str, JsonValue]:
        """Return the facts of an assessment; without calls of spot on they have no `exact`."""
        facts: dict[str, JsonValue] = {"last": self.last, "best": self.best}
        return facts if self.exact is None else {**facts, "exact": self.exact}


class LiarsDiceAssessor(SeatAssessor):
    """Assessor of one game; its kinds are `bid`, `challenge`, `spot_on` and `knowledge`."""

    game: LiarsDice

    def _begin(self) -> None:
        self._knowledge = {seat: LiarsDiceKnowledge(self.game, seat) for seat in self._assessed}
        self._entropy: dict[int, float] = {}
        """Entropy of each seat at its latest decision, in bits."""

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return its assessment if it was a decision."""
        found = list[Assessment]()
        knowledge, action = self._knowledge.get(ply.player), ply.decision.action
        if knowledge:
            # Judged before the events of the ply: they are not known to the seat yet.
            if isinstance(action, DiceBid) and self._wants("bid"):
                found.append(_judge_bid(ply, action, knowledge))
            if isinstance(action, Challenge) and self._wants("challenge"):
                found.append(_judge_challenge(ply, knowledge))
            if isinstance(action, SpotOn) and self._wants("spot_on"):
                found.append(_judge_spot_on(ply, knowledge))
            if self._wants("knowledge"):
                self._entropy[ply.player] = knowledge.entropy()
        self._latest_ply = ply.number
        # Each seat learns only what it witnesses, or it would be judged by hidden dice.
        for seat, known in self._knowledge.items():
            for event in ply.events:
                if event.seen_by(seat):
                    known.update(event)
        return found

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the entropies of each seat that made a decision. This changes nothing.

        Bids exclude no hand, so that in a round the entropy stays that after the roll.
        """
        return [
            self._knowledge_of(seat, entropy, entropy)
            for seat, entropy in sorted(self._entropy.items())
        ]


def _judge_bid(ply: Ply, bid: DiceBid, knowledge: LiarsDiceKnowledge) -> Assessment:
    odds, probability = DiceOdds.of(knowledge), knowledge.probability(bid)
    measured = {"bid_probability": WeightedSum(probability)}
    # A false bid is no fault if every other action loses as certainly.
    if odds.greatest > 0:
        measured["impossible_bids"] = WeightedSum(float(probability == 0))
    # The last bid could not be true, and it was not challenged.
    if odds.last == 0:
        measured["challenges_missed"] = WeightedSum(1.0)
    facts: dict[str, JsonValue] = {"probability": probability, **odds.facts()}
    return Assessment(ply.number, ply.player, "bid", facts, measured)


def _judge_spot_on(ply: Ply, knowledge: LiarsDiceKnowledge) -> Assessment:
    odds = DiceOdds.of(knowledge)
    assert odds.exact is not None
    measured = {"spot_on_probability": WeightedSum(odds.exact)}
    # A bid that cannot be true is not exactly right either; a challenge would have won.
    if odds.last == 0:
        measured["challenges_missed"] = WeightedSum(1.0)
    return Assessment(ply.number, ply.player, "spot_on", odds.facts(), measured)


def _judge_challenge(ply: Ply, knowledge: LiarsDiceKnowledge) -> Assessment:
    odds = DiceOdds.of(knowledge)
    assert odds.last is not None
    # Without a higher bid and another call the challenge is forced.
    forced = odds.best is None and odds.exact is None
    measured = {} if forced else {"challenges_sound": WeightedSum(float(odds.last <= 0.5))}
    # The same opportunity, taken: the measure is a share of both.
    if odds.last == 0 and not forced:
        measured["challenges_missed"] = WeightedSum(0.0)
    return Assessment(ply.number, ply.player, "challenge", odds.facts(), measured)


def _number(value: JsonValue) -> float:
    """Return a probability of the facts; 0 for a missing one."""
    return float(value) if isinstance(value, int | float) else 0.0


DECISION_KINDS = {
    "bid": DecisionKind.of_measure(
        "bid_probability",
        "probability",
        "probability that the bid is true, by the own dice",
        "bids",
    ),
    "challenge": DecisionKind.of_measure(
        "challenges_sound",
        "",
        "1 if the challenged bid was false with at least 50 %, else 0",
        "challenges",
    ),
}


class LiarsDiceAnalysis(GameAnalysis):
    """Exact knowledge and judgements of liar's dice."""

    game: LiarsDice

    facts: ClassVar[Mapping[str, Fact]] = {**STATEMENT_FACTS, **FACTS}
    measures = (*MEASURES, *STATEMENT_MEASURES)
    decision_kinds = DECISION_KINDS
    knowledge_type = LiarsDiceKnowledge

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> Assessor:
        """Return a new assessor of one game; bids are also statements."""
        return with_talk(self.game, LiarsDiceAssessor(self.game, players, kinds), players, kinds)

    def consequences(self, knowledge: Knowledge, actions: Collection[Action]) -> dict[Action, str]:
        """Return the probability that each bid is true and that each call wins, by the own dice."""
        assert isinstance(knowledge, LiarsDiceKnowledge)
        odds = DiceOdds.of(knowledge)
        values: dict[Action, float] = {}
        for action in actions:
            if isinstance(action, DiceBid):
                values[action] = knowledge.probability(action)
            elif isinstance(action, Challenge) and odds.last is not None:
                values[action] = 1 - odds.last
            elif isinstance(action, SpotOn) and odds.exact is not None:
                values[action] = odds.exact
        return {
            action: f"{'true' if isinstance(action, DiceBid) else 'right'} with probability "
            f"{percentage(value)}, by your own dice"
            # Rounded, so that equal values stay in the order of the game.
            for action, value in sorted(values.items(), key=lambda item: -round(item[1], 9))
        }

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the comment on a bid or a challenge. It uses only what the seat could know."""
        facts = assessment.facts
        if assessment.kind not in ("bid", "challenge", "spot_on"):
            return None
        last, best, exact = (_number(facts.get(name)) for name in ("last", "best", "exact"))
        if assessment.kind == "challenge":
            text = f"Challenged a bid that was true with {per_cent(last)}, by the own dice."
            return Comment(text, mistake=last == 1 and max(best, exact) > 0)
        if assessment.kind == "spot_on":
            text = f"Called a bid that was exactly right with {per_cent(exact)}, by the own dice."
            return Comment(text, mistake=exact == 0 and (best > 0 or last < 1))
        probability = _number(facts["probability"])
        text = f"True with {per_cent(probability)}, by the own dice."
        if facts["last"] is not None:
            text += f" The last bid was true with {per_cent(last)}."
        # A bid is a mistake for certain if it cannot be true, or if a challenge could not fail.
        could_win = max(best, exact) > 0 or (facts["last"] is not None and last < 1)
        missed = facts["last"] is not None and last == 0
        return Comment(text, mistake=missed or (probability == 0 and could_win))

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Roll the hands of the other seats again, if they have not been revealed."""
        state, steps = self.game.initial_state(), list[Step]()
        assert isinstance(state, LiarsDiceState)
        # Every call reveals all hands that were rolled before it.
        calls = [n for n, step in enumerate(history) if step.action in self.game.calls]
        hidden_from = calls[-1] if calls else -1
        for number, step in enumerate(history):
            action = step.action
            if step.player == CHANCE and number > hidden_from and state.roller != player:
                action = state.sample_chance(rng)
            state.apply(step.player, action)
            steps.append(Step(step.player, action))
        return steps
