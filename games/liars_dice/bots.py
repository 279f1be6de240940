"""Bots of liar's dice, weakest first, and the posterior of hidden hands given the bids.

The posterior needs a model of how the others play: a player with hand h, who sees the last bid b,
takes each legal action with a probability proportional to exp(q / T), where q is the probability,
by its own dice alone, that the bid it makes is true or that the challenged bid b is false, and T is
a temperature: quantal response of a player who does not read the bids of others (R. D. McKelvey and
T. R. Palfrey, "Quantal response equilibria for normal form games", Games and Economic Behavior 10
(1995), 6-38).

Hands are independent before the bids, and under the model an action depends on the hand of its own
player only. So the posterior is a product over the players, and exact:

    P(h | a_1, ..., a_k)  ~  P(h) prod_i P(a_i | h, b_i).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena import Action, Observation
from arena.agents.agent import EvenBot
from games.liars_dice.knowledge import LiarsDiceKnowledge, match_chance, tail
from games.liars_dice.rules import CHALLENGE, DiceBid, LiarsDice, hand_distribution


class LiarsDiceBot(EvenBot):
    """Bot that takes the action with the best immediate chance.

    A bid wins if it is true and challenged at once, a challenge wins if the last bid is false. They
    are compared by their probabilities; among equal bids it draws.
    """

    def _best(self, observation: Observation) -> Sequence[Action]:
        notes: LiarsDiceKnowledge = observation.notes
        raises = list(observation.legal_actions.of(DiceBid))
        last = notes.last_bid
        values = self.truths(notes, [*raises, last] if last else raises)
        is_false = 1 - values.pop() if last else -1.0
        highest = max(values, default=-1.0)
        # With equal chances, a challenge ends the round before the others can improve theirs.
        if is_false >= highest:
            return [CHALLENGE]
        return [bid for bid, value in zip(raises, values, strict=True) if value >= highest]

    @abstractmethod
    def truths(self, notes: LiarsDiceKnowledge, bids: list[DiceBid]) -> list[float]:
        """Return the probability that each bid is true, in the view of the seat."""


class Counter(LiarsDiceBot):
    """Bot that counts its own dice and takes all hidden dice as independent and uniform."""

    def truths(self, notes: LiarsDiceKnowledge, bids: list[DiceBid]) -> list[float]:
        return [notes.probability(bid) for bid in bids]


class Reader(LiarsDiceBot):
    """Bot that also infers hidden dice from the bids of the others, by the model above."""

    def truths(self, notes: LiarsDiceKnowledge, bids: list[DiceBid]) -> list[float]:
        return truth_posterior(notes, bids)


# Reading of bids


TEMPERATURE = 0.1
"""T of the model, chosen among 0.05, 0.1, 0.15, 0.25 and 0.5. With a lower T, `reader` wins a bit
more against `counter`, which takes the best action, but trusts unknown players too much."""


class HandResponses(NamedTuple):
    """All hands of some dice, and what a player with each of them thinks of each bid."""

    prior: NDArray[np.float64]
    """Probability of each hand, shape (hands,)."""
    matches: NDArray[np.int64]
    """Dice that count as each face, shape (hands, faces)."""
    truth: NDArray[np.float64]
    """Probability that each bid of the table of bids is true, shape (hands, bids)."""
    appeal: NDArray[np.float64]
    """Weight exp(q / T) of making each bid, shape (hands, bids)."""


# Few: with six dice of ten faces and 36 dice on the table, one has 29 MB.
@lru_cache(maxsize=8)
def hand_responses(game: LiarsDice, dice: int, total: int) -> HandResponses:
    """Return the responses of a player with some of the dice on the table.

    They depend on public numbers only.
    """
    # Hands are multisets: the order of a throw tells nothing, and there are far fewer of them.
    hands = hand_distribution(dice, game.options.faces)
    matches = np.array([[game.matches(hand, face) for face in game.faces] for hand, _ in hands])
    columns, own = [], range(int(matches.max()) + 1)
    for bid in game.bids:
        # q depends on a hand only by its number of matches k: q = P(K >= quantity - k). One tail
        # for each k, looked up for all hands at once.
        chance = match_chance(game, bid.face)
        tails = np.array([tail(total - dice, chance, bid.quantity - k) for k in own])
        columns.append(tails[matches[:, bid.face - 1]])
    truth = np.stack(columns, axis=1)
    prior = np.array([probability for _, probability in hands])
    return HandResponses(prior, matches, truth, np.exp(truth / TEMPERATURE))


def _responses(notes: LiarsDiceKnowledge, seat: int) -> HandResponses:
    return hand_responses(notes.game, notes.dice_left[seat], notes.total)


def hand_posterior(notes: LiarsDiceKnowledge, seat: int) -> NDArray[np.float64]:
    """Return the probability of each hand of another seat, shape (hands,), given its bids."""
    game, index, hands = notes.game, notes.game.actions.index, _responses(notes, seat)
    posterior, last = hands.prior, None
    for made in notes.bids:
        if made.player == seat:
            # Softmax: the weight of the bid made, over the sum of those of all legal actions.
            legal = [index[bid] for bid in game.raises(last, notes.total)]
            weights = hands.appeal[:, legal].sum(axis=1)
            # The first bid of a round cannot be challenged; a challenge wins if the bid is false.
            if last is not None:
                weights += np.exp((1 - hands.truth[:, index[last]]) / TEMPERATURE)
            posterior = posterior * (hands.appeal[:, index[made.bid]] / weights)
        # Bids of other seats count only as the position in which this seat chose.
        last = made.bid
    # All weights are positive, so no hand is excluded and the sum is not 0.
    return np.asarray(posterior / posterior.sum())


def truth_posterior(notes: LiarsDiceKnowledge, bids: list[DiceBid]) -> list[float]:
    """Return the probability that each bid is true, given own dice and the bids of the others."""
    # Without a hidden hand, all dice were shown and the result is 0 or 1.
    posteriors = [(_responses(notes, seat), hand_posterior(notes, seat)) for seat in notes.hidden]
    # P(K >= k) for each face that occurs, where K is a sum of independent counts.
    tails: dict[int, NDArray[np.float64]] = {}
    for face in {bid.face for bid in bids}:
        counts = np.ones(1)
        for hands, posterior in posteriors:
            # Distribution of one seat's count; the sum over seats is a convolution.
            counts = np.convolve(counts, np.bincount(hands.matches[:, face - 1], posterior))
        # Reversed sums: entry k is P(K = k) + P(K = k + 1) + ..., and the last entry is 0.
        tails[face] = np.append(counts[::-1].cumsum()[::-1], 0.0)
        tails[face][0] = 1.0  # Exactly, whatever the rounding.
    needed = [max(bid.quantity - notes.seen_matches(bid.face), 0) for bid in bids]
    return [
        float(tails[bid.face][min(least, len(tails[bid.face]) - 1)])
        for bid, least in zip(bids, needed, strict=True)
    ]
