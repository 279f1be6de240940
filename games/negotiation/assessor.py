"""Assessment of a negotiation by exact reference points: Pareto frontier and Nash's solution.

J. F. Nash, "The bargaining problem", Econometrica 18 (1950), 155-162: the solution maximises the
product of the gains over the outcome without agreement: 0 for all players, or the points of walking
away where the option exists.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from arena import (
    CHANCE,
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Outcome,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import Assessor, Fact, SeatAssessor
from arena.core.text import pluralize
from arena.evaluation.talk import (
    SPEECH_MEASURES,
    STATEMENT_FACTS,
    comment_talk,
    with_talk,
)
from games.negotiation.deals import Triple, Values, divisions, other_values
from games.negotiation.events import DealItems
from games.negotiation.game import Negotiation, NegotiationState
from games.negotiation.notes import ValueKnowledge

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
        "same deal: the division with the largest product of points, counted from those of walking "
        "away. Points are before the discount.",
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
    "points": Fact("points", "own points, before the discount"),
    "nash": Fact("points", "own points at Nash's bargaining solution"),
}
"""Descriptions of the facts of assessments, by name."""


@dataclass(frozen=True, slots=True)
class BargainingReference:
    """Exact reference points of one deal. Points are before any discount."""

    nash: tuple[float, ...]
    """Points of each player at Nash's solution, the mean of all divisions with the largest product;
    those of walking away if no division gives all players as much."""
    most: int
    """Largest sum of points of all players."""
    frontier: frozenset[tuple[int, ...]]
    """Points of all divisions that are Pareto-optimal: no division gives one player more and none
    less."""

    def is_optimal(self, points: tuple[int, ...]) -> bool:
        """Return whether a division with these points is Pareto-optimal."""
        return points in self.frontier


def points_table(counts: Triple, values: Values) -> NDArray[np.int64]:
    """Return the points of each division: shape (divisions, players), in their order."""
    # Shapes: (divisions, players, types) and (players, types).
    shares = np.array(divisions(counts, len(values)), np.int64)
    points: NDArray[np.int64] = np.einsum("dpt,pt->dp", shares, np.array(values, np.int64))
    return points


@lru_cache(maxsize=256)
def bargaining_reference(counts: Triple, values: Values, outside: int = 0) -> BargainingReference:
    """Return the reference points of a deal, by comparing all divisions.

    Args:
        counts: Items on the table.
        values: Values of each player.
        outside: Points of each player when one walks away.
    """
    # Shape (points, players): equal points of several divisions once.
    table = np.unique(points_table(counts, values), axis=0)
    # Shape (a, b): whether division b gives no player less than division a, and one more. Equal
    # rows were merged, so no less for all means more for one, except of a row with itself.
    at_least = (table[np.newaxis] >= table[:, np.newaxis]).all(axis=2)
    # Only the row itself is at least as good for all.
    optimal = table[at_least.sum(axis=1) == 1]
    # To walk away is an outcome, too: a division that gives a player less is not agreed to.
    agreeable = optimal[(optimal >= outside).all(axis=1)]
    product = (agreeable - outside).prod(axis=1)
    # Several divisions may have the largest product; integers compare exactly.
    best = agreeable[product == product.max(initial=0)]
    if not len(best):
        best = np.full((1, len(values)), outside)
    return BargainingReference(
        tuple(float(points) for points in best.mean(axis=0)),
        max(int(table.sum(axis=1).max()), outside * len(values)),
        frozenset(tuple(int(points) for points in row) for row in optimal),
    )


class NegotiationAssessor(SeatAssessor):
    """Assessor of one game: the agreement compared with the best ones of the same deal.

    Its kinds are `agreement` and `knowledge`.
    """

    game: Negotiation

    def _begin(self) -> None:
        self._state = NegotiationState(self.game)
        self._knowledge = {player: ValueKnowledge(self.game, player) for player in self._assessed}

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply. All assessments are made at the end."""
        self._state.apply(ply.player, ply.decision.action)
        self._latest_ply = ply.number
        # The values of other players are private events of theirs.
        for player, knowledge in self._knowledge.items():
            for event in ply.events:
                if event.seen_by(player):
                    knowledge.update(event)
        return []

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the assessment of the result, and the knowledge, of each seat."""
        found = list[Assessment]()
        # A game that was cut off before the deal has nothing to assess.
        for player in self._assessed if self._state.values else ():
            if self._wants("agreement"):
                found.append(self._agreement(player))
            if self._wants("knowledge"):
                entropy = self._knowledge[player].entropy()
                # Nothing can be learned for certain after the deal.
                found.append(self._knowledge_of(player, entropy, entropy))
        return found

    def _agreement(self, player: int) -> Assessment:
        state = self._state
        outside = state.game.options.walk_away
        reference = bargaining_reference(state.counts, state.values, outside)
        points, agreed = state.points, state.is_agreed
        optimal = agreed and reference.is_optimal(points)
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
    knowledge_type = ValueKnowledge

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> Assessor:
        """Return a new assessor of one game; it also judges talk and acceptances."""
        return with_talk(self.game, NegotiationAssessor(self.game, players, kinds), players, kinds)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the values of the others again, by the rule of the deal; they are never revealed."""
        steps = list(history)
        if steps:
            dealt = steps[0].action
            assert isinstance(dealt, DealItems)
            # Offers and talk depend on the counts only, so the rest of the history stays legal.
            own, players = dealt.values[player], self.game.num_players
            others = rng.choice(other_values(dealt.counts, own, players))
            in_order = (own, *others)
            values = tuple(in_order[(seat - player) % players] for seat in range(players))
            steps[0] = Step(CHANCE, DealItems(dealt.counts, values))
        return steps

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the assessment of an agreement as text; None for other kinds.

        It reveals values of other players, so it is only for viewers who see everything.
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
