"""Bots of Goofspiel."""

from __future__ import annotations

from collections.abc import Mapping

from arena import Action, Decision, Observation, Seat
from arena.agents.agent import MixedBot
from games.goofspiel.game import Bid


class Matching:
    """Bot that bids the card of the same number as the prize.

    It is the best answer to random bids if points count (Ross 1971): with n cards it is then ahead
    by (n^2 - 1) / 6 points in the mean, 28 of a full suit.
    """

    def __init__(self, seat: Seat) -> None: ...

    async def act(self, observation: Observation) -> Decision:
        # Each prize was answered by its own card, so this card is still in the hand.
        return Decision(Bid(observation.notes.prize))


class Nearby(MixedBot):
    """Bot that bids its card of the rank of the prize, or one beside it.

    The ranks are those among its own cards and among the prizes that are left.
    """

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        hand, notes = observation.legal_actions.of(Bid), observation.notes
        rank = sum(card < notes.prize for card in notes.prizes)
        weights = {rank: 2.0, rank + 1: 1.0, rank - 1: 1.0}
        chances = {hand[at]: weight for at, weight in weights.items() if 0 <= at < len(hand)}
        total = sum(chances.values())
        return {bid: weight / total for bid, weight in chances.items()}
