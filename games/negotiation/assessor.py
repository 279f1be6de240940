"""Assessment of a negotiation by exact reference points, and exact knowledge of a player.

Offers and talk prove nothing about values: any player may make any offer. So the knowledge of a
player about the values of others is what follows from the rule of the deal and its own values; it
does not change during the game.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Sequence

from arena import (
    CHANCE,
    Assessment,
    Comment,
    Event,
    GameAnalysis,
    Outcome,
    Placement,
    Ply,
    Step,
    WeightedSum,
)
from games.negotiation.bargaining import bargaining_reference
from games.negotiation.base import NegotiationBase
from games.negotiation.deals import (
    ITEMS,
    SINGULAR,
    TOTAL_VALUE,
    Triple,
    Values,
    all_counts,
    other_values,
    value_vectors,
)
from games.negotiation.events import DealItems, ItemsDealt, ValuesDealt
from games.negotiation.measures import FACTS, MEASURES
from games.negotiation.state import NegotiationState


class ValueKnowledge:
    """Knowledge of one player about the values of the others; all possible ones equally likely."""

    def __init__(self, game: NegotiationBase, player: int) -> None:
        self.game, self.player = game, player
        self.counts: Triple = ()
        self.own: Triple = ()

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case ItemsDealt(counts):
                self.counts = counts
            case ValuesDealt(player, values) if player == self.player:
                self.own = values

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

    def world_count(self) -> int:
        """Return the number of possible values of the others; before the deal, of all deals."""
        return len(self.possible()) if self.own else _deal_count(self.game.num_players)

    def placement(self) -> Placement:
        """Return the probability of each value of one item, by player and type.

        Before the deal all entries are 0.
        """
        names, players = self.game.seat_names, range(self.game.num_players)
        others = [player for player in players if player != self.player]
        rows = []
        for player in others:
            values, worlds = self.marginal(player), max(len(self.possible()), 1)
            for item in range(len(ITEMS)):
                counts = Counter[int]()
                for vector, number in values.items():
                    counts[vector[item]] += number
                rows.append(tuple(counts[value] / worlds for value in range(TOTAL_VALUE + 1)))
        return Placement(
            tuple(f"{noun} ({names[player]})" for player in others for noun in SINGULAR),
            tuple(f"worth to {names[player]}" for player in others for _ in SINGULAR),
            tuple(map(str, range(TOTAL_VALUE + 1))),
            tuple(rows),
        )

    def entropy(self) -> float:
        """Return log2 of the number of possible values."""
        return math.log2(self.world_count())


def _deal_count(players: int) -> int:
    """Return the number of all deals: items and values of all players."""
    return sum(
        len(other_values(counts, own, players))
        for counts in all_counts()
        for own in value_vectors(counts)
    )


class NegotiationAssessor:
    """Assessor of one game: the agreement compared with the best ones of the same deal.

    Args:
        game: The game that is played.
        players: The seats to assess; None means all.
        kinds: The kinds to make, of `agreement` and `knowledge`; None means both.
    """

    def __init__(
        self,
        game: NegotiationBase,
        players: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        self._state = NegotiationState(game)
        self._kinds = kinds
        self._assessed = range(game.num_players) if players is None else sorted(players)
        self._knowledge = {player: ValueKnowledge(game, player) for player in self._assessed}
        self._latest = 0

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply. All assessments are made at the end."""
        self._state.apply(ply.player, ply.decision.action)
        self._latest = ply.number
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
            if self._kinds is None or "agreement" in self._kinds:
                found.append(self._agreement(player))
            if self._kinds is None or "knowledge" in self._kinds:
                entropy = self._knowledge[player].entropy()
                # Nothing can be learned for certain after the deal.
                facts = {"entropy_dealt": entropy, "entropy_end": entropy}
                found.append(Assessment(self._latest, player, "knowledge", facts))
        return found

    def _agreement(self, player: int) -> Assessment:
        state = self._state
        reference = bargaining_reference(state.counts, state.values)
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
        return Assessment(self._latest, player, "agreement", facts, measurements)


def comment(assessment: Assessment) -> Comment | None:
    """Return the assessment of an agreement as text; None for other kinds.

    It reveals values of other players, so it is only for viewers who see everything.
    """
    if assessment.kind != "agreement":
        return None
    facts = assessment.facts
    nash = f"Nash's solution gives it {facts['nash']:g}"
    if not facts["agreed"]:
        return Comment(f"Player {assessment.player}: no deal; {nash}.", omniscient=True)
    quality = "Pareto-optimal" if facts["optimal"] else "not Pareto-optimal"
    text = f"Player {assessment.player} has {facts['points']} points, {quality}; {nash}."
    return Comment(text, omniscient=True)


class NegotiationAnalysis(GameAnalysis):
    """Exact knowledge and judgements of the negotiation."""

    game: NegotiationBase

    facts = FACTS
    measures = MEASURES

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

    def knowledge(self, player: int) -> ValueKnowledge:
        """Return the exact knowledge of `player` about the values of the others."""
        return ValueKnowledge(self.game, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> NegotiationAssessor:
        return NegotiationAssessor(self.game, players, kinds)

    def comment(self, assessment: Assessment) -> Comment | None:
        return comment(assessment)
