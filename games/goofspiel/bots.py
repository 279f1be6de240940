"""Bots of Goofspiel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from arena import Action, Decision, Observation, Seat
from arena.agents.agent import MixedBot
from games.goofspiel.game import Bid, GoofspielNotes

Floats = NDArray[np.float64]

MOST_SOLVED = 4
"""Most cards in a hand with which the rest of the game is solved."""
ROUNDS = 100
"""Iterations for all matrix games of one size."""


@dataclass(frozen=True, slots=True)
class Round:
    """The knowledge of two players before a bid."""

    own: tuple[int, ...]
    other: tuple[int, ...]
    prize: int
    prizes: tuple[int, ...]
    """Prizes to come, lowest first."""
    lead: int
    """Own points minus those of the other player."""
    descending: bool

    @classmethod
    def of(cls, notes: GoofspielNotes) -> Round:
        """Return the round in which a player of a game for two must bid."""
        me, other = notes.player, 1 - notes.player
        lead = notes.points[me] - notes.points[other]
        descending = notes.game.options.prizes == "descending"
        return cls(notes.hands[me], notes.hands[other], notes.prize, notes.prizes, lead, descending)


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


class Solver(Nearby):
    """Bot for two players that plays an equilibrium of the last four cards.

    With more cards in a hand, and with more players, it bids as `Nearby` does.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self._plays_two = seat.game.num_players == 2

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        if not self._plays_two or len(observation.legal_actions) > MOST_SOLVED:
            return super().probabilities(observation)
        strategy = equilibrium(Round.of(observation.notes))
        legal = observation.legal_actions
        # What is left of the first iterations is no part of the equilibrium.
        kept = [chance if chance > 0.01 else 0.0 for chance in strategy]
        return {bid: chance / sum(kept) for bid, chance in zip(legal, kept, strict=True)}


@lru_cache(maxsize=64)
def equilibrium(now: Round) -> tuple[float, ...]:
    """Return the probability of each own card, lowest first."""
    count, span = len(now.own), sum((now.prize, *now.prizes))
    # After the last card only the sign of the lead counts.
    leads = np.arange(-span, span + 1)
    ends = np.sign(now.lead + leads).astype(float)
    values = np.broadcast_to(ends, (1, 1, 1, len(leads)))
    for size in range(1, count):
        values = np.mean(solve(_matrices(now, size, values))[1], axis=3)
    after = _bids(now.own, now.other, count, values, now.prize)[0, 0, 0]
    return tuple(solve(after[span])[0].tolist())


def _matrices(now: Round, size: int, values: Floats) -> Floats:
    """Return the matrix games of hands of this size.

    Shape [own hands, other hands, sets of prizes, next prizes, leads, own bids, other bids].
    """
    sets = list(combinations(now.prizes, size))
    before = {left: at for at, left in enumerate(combinations(now.prizes, size - 1))}
    games = []
    for chosen in range(size - 1 if now.descending else 0, size):
        prizes = np.array([each[chosen] for each in sets])
        rest = [before[each[:chosen] + each[chosen + 1 :]] for each in sets]
        games.append(_bids(now.own, now.other, size, values[:, :, rest], prizes))
    return np.stack(games, axis=3)


def _bids(
    own: Sequence[int],
    other: Sequence[int],
    size: int,
    values: Floats,
    prizes: NDArray[np.int64] | int,
) -> Floats:
    """Return the values after each pair of bids for a prize.

    Args:
        own: Own cards now.
        other: The cards of the other player now.
        size: Cards in each hand before the bid.
        values: Values of smaller hands, [own hands, other hands, sets of prizes, leads].
        prizes: The prize for each set.

    Returns:
        Shape [own hands, other hands, sets of prizes, leads, own bids, other bids].
    """
    (mine, my_rest), (theirs, their_rest) = _hands(own, size), _hands(other, size)
    signs = np.sign(mine[:, None, :, None] - theirs[None, :, None, :])
    prizes = np.atleast_1d(prizes)
    gains = signs[:, :, None] * prizes[:, None, None]
    leads = np.arange(values.shape[3])
    rows = my_rest[:, None, None, None, :, None]
    columns = their_rest[None, :, None, None, None, :]
    sets = np.arange(len(prizes))[:, None, None, None]
    # Leads beyond the ends cannot be reached.
    moved = np.clip(leads[:, None, None] + gains[:, :, :, None], 0, len(leads) - 1)
    after: Floats = values[rows, columns, sets, moved]
    return after


def _hands(cards: Sequence[int], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all hands of this size, and the number of the hand without each of its cards."""
    hands = list(combinations(cards, size))
    numbers = {hand: at for at, hand in enumerate(combinations(cards, size - 1))}
    rest = [[numbers[hand[:at] + hand[at + 1 :]] for at in range(size)] for hand in hands]
    return np.array(hands), np.array(rest)


def solve(games: Floats) -> tuple[Floats, Floats]:
    """Return strategies of the row players and the values of matrix games of zero sum.

    Regret matching+ with alternating updates and linear averages (O. Tammelin, "Solving large
    imperfect information games using CFR+", 2014). Shape of `games`: [..., rows, columns].
    """
    rows, columns = np.zeros(games.shape[:-1]), np.zeros((*games.shape[:-2], games.shape[-1]))
    row_sum, column_sum = np.zeros_like(rows), np.zeros_like(columns)
    for number in range(1, ROUNDS + 1):
        column = _normalised(columns)
        payoffs = np.einsum("...rc,...c->...r", games, column)
        present = np.sum(_normalised(rows) * payoffs, axis=-1, keepdims=True)
        rows = np.maximum(0, rows + payoffs - present)
        row = _normalised(rows)
        costs = np.einsum("...rc,...r->...c", games, row)
        columns = np.maximum(0, columns + np.sum(column * costs, -1, keepdims=True) - costs)
        row_sum += number * row
        column_sum += number * column
    row, column = _normalised(row_sum), _normalised(column_sum)
    return row, np.einsum("...r,...rc,...c->...", row, games, column)


def _normalised(weights: Floats) -> Floats:
    """Return weights that add up to 1 along the last axis; even ones in place of zeros."""
    totals = weights.sum(axis=-1, keepdims=True)
    even = np.full_like(weights, 1 / weights.shape[-1])
    np.divide(weights, totals, out=even, where=totals > 0)
    return even
