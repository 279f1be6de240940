"""Bots of Kuhn poker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from arena import Action, Observation
from arena.agents.agent import MixedBot
from games.kuhn_poker.game import BET, PASS, CardDealt, Moved


class KuhnBot(MixedBot):
    """Bot that bets with a probability that depends on its card and the moves so far."""

    bets: ClassVar[Mapping[tuple[str, ...], Mapping[str, float]]]
    """Probability of a bet by the moves so far, then the card."""

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        moves = tuple(each.move for each in observation.events if isinstance(each, Moved))
        card = next(
            each.card
            for each in observation.events
            if isinstance(each, CardDealt) and each.player == observation.player
        )
        bet = self.bets[moves][card]
        return {PASS: 1 - bet, BET: bet}


class Honest(KuhnBot):
    """Bot that never bluffs: it bets the King, and calls with the Queen every second time."""

    bets: ClassVar = {
        (): {"Jack": 0.0, "Queen": 0.0, "King": 1.0},
        ("pass", "bet"): {"Jack": 0.0, "Queen": 0.5, "King": 1.0},
        ("pass",): {"Jack": 0.0, "Queen": 0.0, "King": 1.0},
        ("bet",): {"Jack": 0.0, "Queen": 0.5, "King": 1.0},
    }


class KuhnEquilibrium(KuhnBot):
    """Bot that plays a Nash equilibrium exactly.

    The first player bets the Jack with a probability alpha of 0 to 1/3, the King with 3 alpha, and
    calls with the Queen with alpha + 1/3 (H. W. Kuhn 1950). Here alpha is 1/3. The second player
    has one strategy.
    """

    bets: ClassVar = {
        (): {"Jack": 1 / 3, "Queen": 0.0, "King": 1.0},
        ("pass", "bet"): {"Jack": 0.0, "Queen": 2 / 3, "King": 1.0},
        ("pass",): {"Jack": 1 / 3, "Queen": 0.0, "King": 1.0},
        ("bet",): {"Jack": 0.0, "Queen": 1 / 3, "King": 1.0},
    }
