"""Exact knowledge of one player, its talk, and judgements of agreements by reference points.

Offers and talk prove nothing about values: any player may make any offer. So the knowledge of a
player about the values of others is what follows from the rule of the deal and its own values; it
does not change during the game.

Reference points are the Pareto frontier and Nash's solution: J. F. Nash, "The bargaining problem",
Econometrica 18 (1950), 155-162. It maximises the product of the gains over the outcome without
agreement: 0 for all players, or the points of walking away where the option exists.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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
from arena.core.analysis import Assessor, Fact, Knowledge, SeatAssessor
from arena.core.statements import GameTalk
from arena.core.text import pluralize
from arena.evaluation.talk import (
    SPEECH_MEASURES,
    STATEMENT_FACTS,
    comment_talk,
    with_talk,
)
from games.negotiation.deals import (
    ITEMS,
    SINGULAR,
    TOTAL_VALUE,
    Triple,
    Values,
    all_counts,
    divisions,
    other_values,
    value_vectors,
    worth,
)
from games.negotiation.notes import NegotiationNotes
from games.negotiation.rules import (
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
    numbers,
)


class NegotiationKnowledge(NegotiationNotes):
    """Notes of one player with the possible values of the others, which are equally likely."""

    def possible(self) -> tuple[Values, ...]:
        """Return the possible values of the others, in turn order; () before the deal."""
        if not self.own:
            return ()
        return other_values(self.counts, self.own, self.game.num_players)

    def marginal(self, player: int) -> Counter[Triple]:
        """Return the possible values of one other player, with how often each occurs."""
        # `possible` lists the others in turn order from the next player on.
        number = (player - self.player - 1) % self.game.num_players
        return Counter(others[number] for others in self.possible())

    def mean_values(self, player: int) -> list[float]:
        """Return the mean value of each type to one other player."""
        vectors = self.marginal(player)
        columns = zip(*vectors, strict=True)
        # The numbers of occurrences are the weights.
        return [sum(map(mul, column, vectors.values())) / vectors.total() for column in columns]

    def world_count(self) -> int:
        """Return the number of possible values of the others; before the deal, of all deals."""
        if self.own:
            return len(self.possible())
        return sum(values.total() for values in _deals(self.game.num_players))

    def placement(self) -> Placement:
        """Return the probability of each value of one item, by player and type."""
        names, players = self.game.seat_names, range(self.game.num_players)
        others = [player for player in players if player != self.player]
        rows = []
        for player in others:
            # Before the deal, all numbers of items are equally likely.
            values = [self.marginal(player)] if self.own else _deals(len(players))
            for item in range(len(ITEMS)):
                shares = [0.0] * (TOTAL_VALUE + 1)
                for each in values:
                    for vector, number in each.items():
                        shares[vector[item]] += number / each.total() / len(values)
                rows.append(tuple(shares))
        return Placement(
            tuple(f"{noun} ({names[player]})" for player in others for noun in SINGULAR),
            tuple(f"worth to {names[player]}" for player in others for _ in SINGULAR),
            tuple(map(str, range(TOTAL_VALUE + 1))),
            tuple(rows),
        )

    def entropy(self) -> float:
        """Return log2 of the number of possible values."""
        return math.log2(self.world_count())


@lru_cache
def _deals(players: int) -> list[Counter[Triple]]:
    """Return, for all numbers of items, the values of one player and how many deals have them."""
    return [
        Counter({own: len(other_values(counts, own, players)) for own in value_vectors(counts)})
        for counts in all_counts()
    ]


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

    def probability(self, statement: Action, speaker: int, knowledge: Knowledge) -> float | None:
        """Return 1 or 0: a player knows its own values, and what a share is worth to it."""
        assert isinstance(knowledge, NegotiationKnowledge)
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
            seat = 1 - speaker if promise.to is None else promise.to
            share = action.shares(speaker, self.game.num_players, dealt.counts)[seat]
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

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply. All assessments are made at the end."""
        self._state.apply(ply.player, ply.decision.action)
        self._latest_ply = ply.number
        return []

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the assessment of the result, and the knowledge, of each seat."""
        found = list[Assessment]()
        # A game that was cut off before the deal has nothing to assess.
        for player in self._assessed if self._state.values else ():
            if self._wants("agreement"):
                found.append(self._agreement(player))
            if self._wants("knowledge"):
                knowledge = NegotiationKnowledge(self.game, player)
                for event in self._state.log.witnessed[player]:
                    knowledge.update(event)
                entropy = knowledge.entropy()
                # Nothing can be learned for certain after the deal.
                found.append(self._knowledge_of(player, entropy, entropy))
        return found

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
