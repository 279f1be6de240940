"""Exact knowledge of one player, its talk, and judgements of agreements by reference points.

Offers and talk prove nothing about values: any player may make any offer. So the knowledge of a
player about the values of the other is what follows from the rule of the deal and its own values;
it does not change during the game.

Reference points are the Pareto frontier and Nash's solution: J. F. Nash, "The bargaining problem",
Econometrica 18 (1950), 155-162. It maximises the product of the gains over the outcome without
agreement: 0 for both players, or the points of walking away where the option exists.
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
from arena.core.analysis import Fact
from arena.core.statements import GameTalk
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
    AcceptOffer,
    ClaimValue,
    DealItems,
    DivisionProposed,
    ItemsDealt,
    Negotiation,
    NegotiationState,
    PromiseAccept,
    PromiseAnswer,
    PromiseItems,
    ProposeDivision,
    Triple,
    Values,
    numbers,
    other_values,
    proposals,
    worth,
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


@dataclass(frozen=True, slots=True)
class Acceptance(Action):
    """Statement of an accepted offer: this share is worth no less to the speaker than no deal."""

    share: Triple

    def __str__(self) -> str:
        return f"accept {numbers(self.share)}"


class NegotiationTalk(GameTalk):
    """Talk of the negotiation."""

    def statements(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Action]:
        """Return also what an acceptance states: this share is acceptable."""
        if not isinstance(action, AcceptOffer):
            return super().statements(player, action, events)
        share = _offered(player, events)
        return (Acceptance(share),) if share else ()

    def probability(
        self, statement: Action, speaker: int, knowledge: NegotiationKnowledge
    ) -> float | None:
        """Return 1 or 0: a player knows its own values, and what a share is worth to it."""
        own = knowledge.own
        match statement:
            case ClaimValue(item, value):
                return float(own[SINGULAR.index(item)] == value)
            case Acceptance(share):
                return float(worth(share, own) >= knowledge.game.options.walk_away)
        return None

    def is_kept(
        self, promise: Promise, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether an offer, or the answer to one, keeps a promise."""
        counters = isinstance(action, ProposeDivision)
        if isinstance(promise, PromiseItems):
            if not isinstance(action, ProposeDivision):
                return None
            dealt = next(event for event in events if isinstance(event, ItemsDealt))
            share = action.shares(speaker, dealt.counts)[1 - speaker]
            return share[SINGULAR.index(promise.item)] >= promise.number
        # An answer is due when there is an offer; a counter-offer rejects it.
        offered = _offered(speaker, events)
        if not offered:
            return None
        if isinstance(promise, PromiseAnswer):
            return promise.answer == ("reject" if counters else str(action))
        assert isinstance(promise, PromiseAccept)
        # The promise is about an offer with these items; another one makes nothing due.
        has_items = offered[SINGULAR.index(promise.item)] >= promise.number
        return isinstance(action, AcceptOffer) if has_items else None

    def is_lasting(self, promise: Promise) -> bool:
        """Return whether the promise is about an offer of another player."""
        return isinstance(promise, PromiseAccept)

    def contradict(self, first: Action, second: Action, speaker: int) -> bool:
        """Return whether both give the same item different values."""
        if not isinstance(first, ClaimValue) or not isinstance(second, ClaimValue):
            return False
        return first.item == second.item and first.value != second.value


def _offered(player: int, events: Sequence[Event]) -> Triple:
    """Return the share of a player in the latest offer of another one; () without an offer."""
    offers = (e for e in reversed(events) if isinstance(e, DivisionProposed) and e.player != player)
    offer = next(offers, None)
    return offer.shares[player] if offer else ()


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
        "same deal: the division with the largest product of points, counted from those of walking "
        "away.",
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
    """Points of each player at Nash's solution, the mean of all divisions with the largest product;
    those of walking away if no division gives all players as much."""
    most: int
    """Largest sum of points of all players."""
    frontier: frozenset[tuple[int, ...]]
    """Points of all divisions that are Pareto-optimal: no division gives one player more and none
    less."""


@lru_cache(maxsize=256)
def bargaining_reference(counts: Triple, values: Values, outside: int = 0) -> BargainingReference:
    """Return the reference points of a deal, by comparing all divisions.

    Args:
        counts: Items on the table.
        values: Values of each player.
        outside: Points of each player when one walks away.
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
        outside = state.game.options.walk_away
        reference = bargaining_reference(state.counts, state.values, outside)
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
