"""Bots of liar's dice, weakest first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from arena import Action, Decision, Observation, Seat
from games.liars_dice.base import CHALLENGE, DiceBid
from games.liars_dice.knowledge import bid_probability
from games.liars_dice.notes import DiceNotes


class LiarsDiceBot(ABC):
    """Bot that takes the action with the best immediate chance.

    A bid wins if it is true and challenged at once, a challenge wins if the last bid is false. Both
    are compared by their probabilities; among equal bids it draws.
    """

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        chances = self.probabilities(observation)
        # All best actions are equally likely, so the weights are not needed.
        return Decision(self._rng.choice(list(chances)))

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        """Return the policy: all best actions are equally likely."""
        notes = observation.notes
        assert isinstance(notes, DiceNotes)
        best = self._best(notes, list(observation.legal_actions.of(DiceBid)))
        return dict.fromkeys(best, 1 / len(best))

    def _best(self, notes: DiceNotes, raises: list[DiceBid]) -> list[Action]:
        last = notes.last_bid
        values = self.truths(notes, raises if last is None else [*raises, last])
        # The last value belongs to the last bid; a challenge wins if that is false.
        challenge = None if last is None else 1 - values.pop()
        highest = max(values, default=-1.0)
        # With equal chances, a challenge ends the round before the others can improve theirs.
        if challenge is not None and challenge >= highest:
            return [CHALLENGE]
        return [bid for bid, value in zip(raises, values, strict=True) if value >= highest]

    @abstractmethod
    def truths(self, notes: DiceNotes, bids: list[DiceBid]) -> list[float]:
        """Return the probability that each bid is true, in the view of the seat."""


class Counter(LiarsDiceBot):
    """Bot that counts its own dice and takes all hidden dice as independent and uniform."""

    def truths(self, notes: DiceNotes, bids: list[DiceBid]) -> list[float]:
        return [bid_probability(notes, bid) for bid in bids]


class Reader(LiarsDiceBot):
    """Bot that also infers hidden dice from the bids of the others, by the model of `reading`."""

    def truths(self, notes: DiceNotes, bids: list[DiceBid]) -> list[float]:
        # Imported late: only this bot needs numpy.
        from games.liars_dice.reading import truth_posterior

        return truth_posterior(notes, bids)
