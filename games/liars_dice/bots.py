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
from typing import TYPE_CHECKING

import numpy as np

from arena import Action, Observation
from arena.agents.agent import EvenBot
from games.liars_dice.knowledge import LiarsDiceKnowledge, match_chance, tail
from games.liars_dice.rules import CHALLENGE, DiceBid, LiarsDice, hand_distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LiarsDiceBot(EvenBot):
    """Bot that takes the action with the best immediate chance.

    A bid wins if it is true and challenged at once, a challenge wins if the last bid is false. They
    are compared by their probabilities; among equal bids it draws.
    """

    def _best(self, observation: Observation) -> Sequence[Action]:
        notes, raises = observation.notes, list(observation.legal_actions.of(DiceBid))
        assert isinstance(notes, LiarsDiceKnowledge)
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


class HandResponses:
    """All hands of some dice, and what a player with each of them thinks of each bid.

    Args:
        game: The game that is played.
        dice: Number of dice of the hand.
        total: Number of dice on the table.
    """

    def __init__(self, game: LiarsDice, dice: int, total: int) -> None:
        # Hands are multisets: the order of a throw tells nothing, and there are far fewer of them.
        hands = hand_distribution(dice, game.options.faces)
        self.prior: NDArray[np.float64] = np.array([p for _, p in hands])
        """Probability of each hand, shape (hands,)."""
        self.matches: NDArray[np.int64] = np.array(
            [[game.matches(hand, face) for face in game.faces] for hand, _ in hands]
        )
        """Dice that count as each face, shape (hands, faces)."""
        self.truth = self._truth(game, total - dice)
        """Probability that each bid of the table of bids is true, shape (hands, bids)."""
        self.appeal: NDArray[np.float64] = np.exp(self.truth / TEMPERATURE)
        """Weight exp(q / T) of making each bid, shape (hands, bids)."""

    def _truth(self, game: LiarsDice, others: int) -> NDArray[np.float64]:
        # q depends on a hand only by its number of matches k: q = P(K >= quantity - k).
        columns = []
        for bid in game.bids:
            chance = match_chance(game, bid.face)
            # One tail for each number of own matches; then looked up for all hands at once.
            own = range(int(self.matches.max()) + 1)
            tails = np.array([tail(others, chance, bid.quantity - k) for k in own])
            columns.append(tails[self.matches[:, bid.face - 1]])
        return np.stack(columns, axis=1)


# Few: with six dice of ten faces and 36 dice on the table, one has 29 MB.
@lru_cache(maxsize=8)
def hand_table(game: LiarsDice, dice: int, total: int) -> HandResponses:
    """Return the table of hands; it depends on public numbers only."""
    return HandResponses(game, dice, total)


def _table_of(notes: LiarsDiceKnowledge, seat: int) -> HandResponses:
    return hand_table(notes.game, notes.dice_left[seat], notes.total)


def hand_posterior(notes: LiarsDiceKnowledge, seat: int) -> NDArray[np.float64]:
    """Return the probability of each hand of another seat, shape (hands,), given its bids."""
    game = notes.game
    table = _table_of(notes, seat)
    # A copy: the table is shared.
    posterior = table.prior.copy()
    last: DiceBid | None = None
    for made in notes.bids:
        if made.player == seat:
            # Softmax: the weight of the bid made, over the sum of those of all legal actions.
            chosen = table.appeal[:, game.actions.index[made.bid]]
            posterior *= chosen / _total_appeal(notes, table, last)
        # Bids of other seats count only as the position in which this seat chose.
        last = made.bid
    # All weights are positive, so no hand is excluded and the sum is not 0.
    result: NDArray[np.float64] = posterior / posterior.sum()
    return result


def _total_appeal(
    notes: LiarsDiceKnowledge, table: HandResponses, last: DiceBid | None
) -> NDArray[np.float64]:
    """Return the sum of the weights of all legal actions after a bid, shape (hands,)."""
    game, index = notes.game, notes.game.actions.index
    legal = [index[bid] for bid in game.raises(last, notes.total)]
    total: NDArray[np.float64] = table.appeal[:, legal].sum(axis=1)
    # The first bid of a round cannot be challenged; a challenge wins if the bid is false.
    if last is not None:
        total = total + np.exp((1 - table.truth[:, index[last]]) / TEMPERATURE)
    return total


def truth_posterior(notes: LiarsDiceKnowledge, bids: list[DiceBid]) -> list[float]:
    """Return the probability that each bid is true, given own dice and the bids of the others."""
    # Without a hidden hand, all dice were shown and the result is 0 or 1.
    posteriors = [(_table_of(notes, seat), hand_posterior(notes, seat)) for seat in notes.hidden]
    # P(K >= k) for each face that occurs, where K is a sum of independent counts.
    tails: dict[int, NDArray[np.float64]] = {}
    for face in {bid.face for bid in bids}:
        counts = np.ones(1)
        for table, posterior in posteriors:
            # Distribution of one seat's count; the sum over seats is a convolution.
            counts = np.convolve(counts, np.bincount(table.matches[:, face - 1], posterior))
        # Reversed sums: entry k is P(K = k) + P(K = k + 1) + ...
        tails[face] = counts[::-1].cumsum()[::-1]
    return [_at(tails[bid.face], bid.quantity - notes.seen_matches(bid.face)) for bid in bids]


def _at(tails: NDArray[np.float64], least: int) -> float:
    """Return P(K >= least) from the tail sums of the distribution."""
    if least <= 0:
        return 1.0
    return float(tails[least]) if least < len(tails) else 0.0
