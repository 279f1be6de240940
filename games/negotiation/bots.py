"""Bots of the negotiation: time-dependent tactics.

P. Faratin, C. Sierra and N. R. Jennings, "Negotiation decision functions for autonomous agents",
Robotics and Autonomous Systems 24 (1998), 159-182. A bot asks for fewer points the less time is
left; its function of time is the polynomial of that paper, with the exponent 1 / beta. Among the
offers with enough points for itself it makes the one that is probably best for the other player.
The bots neither talk nor believe what they read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from arena import Action, Observation, Seat
from arena.agents.agent import EvenBot
from games.negotiation.knowledge import NegotiationKnowledge
from games.negotiation.rules import (
    ACCEPT,
    TOTAL_VALUE,
    Negotiation,
    ProposeDivision,
    worth,
)


class TimeDependentBot(EvenBot):
    """Bot that concedes with time and draws evenly from the offers that it considers best."""

    beta: ClassVar[float]
    """Above 1 it concedes early, below 1 late."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        assert isinstance(seat.game, Negotiation)
        self.game = seat.game

    def target(self, turn: int) -> float:
        """Return the points that the bot asks for in a turn.

        target(t) = 10 - (10 - reserve) * t ** (1 / beta), where t runs from 0 in the first turn to
        1 in the last, and the reserve is an equal share of the 10 points.
        """
        reserve = TOTAL_VALUE / 2
        time = (turn - 1) / (self.game.options.turns - 1)
        # time ** (1 / beta) is the polynomial function of the paper with k = 0.
        return TOTAL_VALUE - (TOTAL_VALUE - reserve) * math.pow(time, 1 / self.beta)

    def _best(self, observation: Observation) -> Sequence[Action]:
        notes: NegotiationKnowledge = observation.notes
        legal, target = observation.legal_actions, self.target(notes.turn)
        offers = legal.of(ProposeDivision)
        if notes.offered is not None and notes.offered >= target:
            return [ACCEPT]
        # When no offer can be made any more, the other choice is no deal and no points.
        if not offers:
            return [ACCEPT]
        # Never empty: to keep everything is worth 10, and no target is higher.
        enough = [offer for offer in offers if worth(offer.kept, notes.own) >= target]
        other, means = 1 - notes.player, notes.mean_values()
        # As in Nash's solution, but with means over all values that are possible for the other.
        scores = [worth(o.shares(notes.player, notes.counts)[other], means) for o in enough]
        # Items that are worth nothing to the bot are given away: they can only raise the score.
        best = max(scores)
        return [o for o, score in zip(enough, scores, strict=True) if math.isclose(score, best)]


class Conceder(TimeDependentBot):
    """Bot that concedes early."""

    beta = 3.0


class Boulware(TimeDependentBot):
    """Bot that concedes late: near the end of the time."""

    beta = 1 / 3
