"""Exact knowledge of one player, its talk, and judgements of agreements by reference points.

Offers and talk prove nothing about values: any player may make any offer. So the knowledge of a
player about the values of the other is what follows from the rule of the deal and its own values;
it does not change during the game.

Reference points are the Pareto frontier and Nash's solution: J. F. Nash, "The bargaining problem",
Econometrica 18 (1950), 155-162. It maximises the product of the points, since no agreement gives 0
to both players.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from arena import (
    CHANCE,
    Action,
    Assessment,
    Comment,
    Event,
    GameAnalysis,
    Measure,
    Outcome,
    Placement,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.action import Promise
from arena.core.analysis import Fact, GameTalk
from arena.core.text import pluralize
from arena.evaluation.talk import (
    SPEECH_MEASURES,
    STATEMENT_FACTS,
    TalkAssessor,
    comment_talk,
)
from games.negotiation.notes import NegotiationNotes
from games.negotiation.rules import (
    ITEMS,
    SINGULAR,
    TOTAL_VALUE,
    ClaimValue,
    DealItems,
    DivisionProposed,
    ItemsDealt,
    Negotiation,
    NegotiationState,
    PromiseAnswer,
    PromiseItems,
    ProposeDivision,
    Triple,
    Values,
    other_values,
    proposals,
)


class NegotiationKnowledge(NegotiationNotes):
    """Notes of one player with the possible values of the other, which are equally likely."""

    def possible(self) -> tuple[Triple, ...]:
        """Return the possible values of the other player; () before the deal."""
        return other_values(self.counts, self.own) if self.own else ()

    def mean_values(self) -> list[float]:
        """Return the mean value of each type to the other player."""
        return [sum(column) / len(column) for column in zip(*self.possible(), strict=True)]

    def world_count(self) -> int:
        """Return the number of possible values of the other player; 1 before the deal."""
        return max(len(self.possible()), 1)

    def placement(self) -> Placement:
        """Return the probability of each value of one item, by type; no rows before the deal."""
        name = self.game.seat_names[1 - self.player]
        rows = []
        for column in zip(*self.possible(), strict=True):
            rows.append(tuple(column.count(v) / len(column) for v in range(TOTAL_VALUE + 1)))
        return Placement(
            tuple(f"{noun} ({name})" for noun in SINGULAR),
            (f"worth to {name}",) * len(ITEMS),
            tuple(map(str, range(TOTAL_VALUE + 1))),
            tuple(rows),
        )

    def entropy(self) -> float:
        """Return log2 of the number of possible values."""
        return math.log2(self.world_count())


# Talk


class NegotiationTalk(GameTalk):
    """Talk of the negotiation."""

    def probability(
        self, statement: Action, speaker: int, knowledge: NegotiationKnowledge
    ) -> float | None:
        """Return 1 or 0: a player knows its own values; None for a promise."""
        if not isinstance(statement, ClaimValue):
            return None
        return float(knowledge.own[SINGULAR.index(statement.item)] == statement.value)

    def is_kept(
        self, promise: Promise, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether an offer, or the answer to one, keeps a promise."""
        is_offer = isinstance(action, ProposeDivision)
        if isinstance(promise, PromiseAnswer):
            # An answer is due when there is an offer; a counter-offer rejects it.
            has_offer = any(isinstance(event, DivisionProposed) for event in events)
            return promise.answer == ("reject" if is_offer else str(action)) if has_offer else None
        if not isinstance(action, ProposeDivision):
            return None
        assert isinstance(promise, PromiseItems)
        dealt = next(event for event in events if isinstance(event, ItemsDealt))
        share = action.shares(speaker, dealt.counts)[1 - speaker]
        return share[SINGULAR.index(promise.item)] >= promise.number

    def contradict(self, first: Action, second: Action, speaker: int) -> bool:
        """Return whether both give the same item different values."""
        if not isinstance(first, ClaimValue) or not isinstance(second, ClaimValue):
            return False
        return first.item == second.item and first.value != second.value


# Judgements


MEASURES = (
    Measure(
        "agreements", "agreements", "share", "higher", "Games with an agreement, over all games."
    ),
    Measure(
        "pareto",
        "Pareto-optimal agreements",
        "share",
        "higher",
        "Agreements in which no other division gives one player more and none less, over "
        "agreements.",
    ),
    Measure(
        "nash_ratio",
        "points relative to Nash",
        "relative to Nash's solution",
        "higher",
        "Own points, 0 without an agreement, over own points at Nash's bargaining solution of the "
        "same deal: the division with the largest product of points.",
    ),
    Measure(
        "welfare",
        "joint points",
        "share",
        "higher",
        "Sum of the points of all players over the largest possible sum; 0 without an agreement.",
    ),
)

FACTS = {
    "points": Fact("points", "own points"),
    "nash": Fact("points", "own points at Nash's bargaining solution"),
}
"""Descriptions of the facts of assessments, by name."""


@dataclass(frozen=True, slots=True)
class BargainingReference:
    """Exact reference points of one deal."""

    nash: tuple[float, ...]
    """Points of each player at Nash's solution, the mean of all divisions with the largest
    product."""
    most: int
    """Largest sum of points of all players."""
    frontier: frozenset[tuple[int, ...]]
    """Points of all divisions that are Pareto-optimal: no division gives one player more and none
    less."""


@lru_cache(maxsize=256)
def bargaining_reference(counts: Triple, values: Values) -> BargainingReference:
    """Return the reference points of a deal, by comparing all divisions.

    Args:
        counts: Items on the table.
        values: Values of each player.
    """
    # Shapes (divisions, players, types) and (players, types).
    shares = np.array([offer.shares(0, counts) for offer in proposals(counts)])
    worths = np.array(values)
    # Shape (points, players): equal points of several divisions once.
    table = np.unique((shares * worths).sum(axis=2), axis=0)
    # Shape (a, b): whether division b gives no player less than division a, and one more. Equal
    # rows were merged, so no less for all means more for one, except of a row with itself.
    at_least = (table[np.newaxis] >= table[:, np.newaxis]).all(axis=2)
    # Only the row itself is at least as good for all.
    optimal = table[at_least.sum(axis=1) == 1]
    product = optimal.prod(axis=1)
    # Several divisions may have the largest product; integers compare exactly.
    best = optimal[product == product.max()]
    return BargainingReference(
        tuple(float(points) for points in best.mean(axis=0)),
        int(table.sum(axis=1).max()),
        frozenset(tuple(int(points) for points in row) for row in optimal),
    )


class NegotiationAssessor(TalkAssessor):
    """Assessor of one game: the agreement compared with the best ones of the same deal.

    Beside talk, its kinds are `agreement` and `knowledge`.
    """

    game: Negotiation

    def _begin(self) -> None:
        super()._begin()
        self._state = NegotiationState(self.game)

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply. All assessments are made at the end."""
        self._state.apply(ply.player, ply.decision.action)
        return super().ply(ply)

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the assessment of the result of each seat, and its knowledge."""
        # A game that was cut off before the deal has nothing to assess.
        is_wanted = self._state.values and self._wants("agreement")
        return [*map(self._agreement, self._assessed if is_wanted else ()), *super().end(outcome)]

    def _agreement(self, player: int) -> Assessment:
        state = self._state
        reference = bargaining_reference(state.counts, state.values)
        points, agreed = state.points, state.is_agreed
        optimal = agreed and points in reference.frontier
        measurements = {
            "agreements": WeightedSum(float(agreed)),
            "nash_ratio": WeightedSum(points[player], reference.nash[player]),
            "welfare": WeightedSum(sum(points), reference.most),
        }
        # Without an agreement there is no division to judge; `agreements` counts that.
        if agreed:
            measurements["pareto"] = WeightedSum(float(optimal))
        facts = {
            "agreed": agreed,
            "optimal": optimal,
            "points": points[player],
            "nash": reference.nash[player],
        }
        return Assessment(self._latest_ply, player, "agreement", facts, measurements)


class NegotiationAnalysis(GameAnalysis):
    """Exact knowledge and judgements of the negotiation."""

    game: Negotiation

    facts: ClassVar[Mapping[str, Fact]] = {**STATEMENT_FACTS, **FACTS}
    measures = (*MEASURES, *SPEECH_MEASURES)
    knowledge_type = NegotiationKnowledge
    assessor_type = NegotiationAssessor

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the values of the other player again; they are never revealed."""
        steps = list(history)
        if steps:
            dealt = steps[0].action
            assert isinstance(dealt, DealItems)
            # Offers and talk depend on the counts only, so the rest of the history stays legal.
            own = dealt.values[player]
            other = rng.choice(other_values(dealt.counts, own))
            values = (own, other) if player == 0 else (other, own)
            steps[0] = Step(CHANCE, DealItems(dealt.counts, values))
        return steps

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the assessment of an agreement as text; None for other kinds.

        It reveals the values of both players, so it is only for viewers who see everything.
        """
        if assessment.kind != "agreement":
            return comment_talk(assessment)
        facts = assessment.facts
        nash = f"Nash's solution gives it {facts['nash']:g}"
        if not facts["agreed"]:
            return Comment(f"Player {assessment.player}: no deal; {nash}.", omniscient=True)
        quality = "Pareto-optimal" if facts["optimal"] else "not Pareto-optimal"
        points = facts["points"]
        assert isinstance(points, int)
        text = f"Player {assessment.player} has {pluralize(points, 'point')}, {quality}; {nash}."
        return Comment(text, omniscient=True)
