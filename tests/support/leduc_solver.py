"""Counterfactual regret minimisation for Leduc hold'em: the solver of the bundled strategy.

`python tests/support/leduc_solver.py` writes the strategy, in half a minute.

CFR+ (O. Tammelin, "Solving large imperfect information games using CFR+", arXiv:1407.5042) with
alternating updates. In iteration t, at an information set I of the player to update and for each of
its moves a, with v the counterfactual value,

    R(I, a) <- max(0, R(I, a) + v(I, a) - sum_b sigma(I, b) v(I, b)),
    sigma(I, a) = R(I, a) / sum_b R(I, b), or uniform if the sum is 0,

and the result is the average of sigma with weights t * (the player's own reach of I). The tree is
that of public events; at each node all three own cards are updated together, as vectors (3,).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from games.leduc_poker.betting import CARDS, MOVES, LeducBetting, card_chances, chips_won
from games.leduc_poker.knowledge import BUNDLED, LeducKey, Strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

ITERATIONS = 3000
"""Iterations of the bundled strategy."""
HEADING = "card   board  moves     fold    call    raise"


class LeducSolver:
    """Regrets and average strategies at all public nodes; `run` improves them."""

    def __init__(self) -> None:
        self.iteration = 0
        self._regrets: dict[tuple[str, str], Vector] = {}
        """By board and moves; shape (own cards, legal moves)."""
        self._sums: dict[tuple[str, str], Vector] = {}
        """Weighted sums of strategies, of the same shapes."""
        self._payoffs: dict[tuple[str, str], Vector] = {}

    def run(self, iterations: int) -> None:
        """Do some iterations; each updates player 0, then player 1."""
        for _ in range(iterations):
            self.iteration += 1
            # Alternating: player 1 already answers the new strategy of player 0.
            for player in (0, 1):
                self._update(LeducBetting(), "", player, np.ones(3), np.ones(3))

    def _update(
        self, betting: LeducBetting, board: str, player: int, own: Vector, other: Vector
    ) -> Vector:
        """Return the counterfactual value of each own card of `player`, shape (3,).

        Args:
            betting: The moves so far.
            board: The board card, or "".
            player: The player whose regrets are updated.
            own: Probability that the player's own moves lead here, for each own card, (3,).
            other: The same for the other player and its cards, (3,).
        """
        if betting.is_over:
            # v(h) = sum over h' of chance(h, h') * reach(h') * chips(h, h').
            payoff: Vector = self._payoff(betting, board, player) @ other
            return payoff
        if betting.awaits_board:
            # The chances of the board card are in the payoffs.
            following = betting.next_round()
            branches = [self._update(following, card, player, own, other) for card in CARDS]
            return sum(branches, np.zeros(3))
        sigma, moves = self._sigma(betting, board), enumerate(betting.legal)
        if betting.player != player:
            # The other player's probabilities enter its reach; the values just add up.
            parts = [
                self._update(betting.after(a), board, player, own, other * sigma[:, i])
                for i, a in moves
            ]
            return sum(parts, np.zeros(3))
        parts = [
            self._update(betting.after(a), board, player, own * sigma[:, i], other)
            for i, a in moves
        ]
        # Shape (own cards, legal moves), and its mean under the present strategy.
        values: Vector = np.stack(parts, axis=1)
        value: Vector = (sigma * values).sum(axis=1)
        key = (board, str(betting))
        # The reach of the other player and of chance is in `values` already: they are the
        # counterfactual values, so that regrets need no further weight.
        # Regret matching plus: negative regrets are not kept.
        self._regrets[key] = np.maximum(0.0, self._regrets[key] + values - value[:, None])
        # Linear averaging: later strategies are better and count more.
        self._sums[key] = self._sums.get(key, 0.0) + self.iteration * own[:, None] * sigma
        return value

    def _sigma(self, betting: LeducBetting, board: str) -> Vector:
        """Return the present strategy, shape (own cards, legal moves)."""
        moves = len(betting.legal)
        regrets = self._regrets.setdefault((board, str(betting)), np.zeros((3, moves)))
        return _normalised(regrets)

    def _payoff(self, betting: LeducBetting, board: str, player: int) -> Vector:
        """Return chips times the chance of the cards, shape (own cards, other's cards)."""
        key = (board, str(betting))
        # Terminal nodes do not change, so each matrix is computed once.
        if key not in self._payoffs:
            matrix = np.zeros((3, 3))
            for i, first in enumerate(CARDS):
                for j, second in enumerate(CARDS):
                    # P(first) * P(second | first) * P(board | both); 0 for a third copy.
                    chance = card_chances(())[first] * card_chances((first,)).get(second, 0.0)
                    if board:
                        chance *= card_chances((first, second)).get(board, 0.0)
                    matrix[i, j] = chance * chips_won(betting, (first, second), board)[0]
            self._payoffs[key] = matrix
        matrix = self._payoffs[key]
        # Zero-sum: the values of player 1 are the negative ones, with its own cards as rows.
        return matrix if player == 0 else -matrix.T

    def average(self) -> Strategy:
        """Return the average strategy, which converges to a Nash equilibrium."""
        strategy: dict[LeducKey, dict[str, float]] = {}
        for (board, moves), sums in self._sums.items():
            betting = _parse(moves)
            for card, row in zip(CARDS, _normalised(sums), strict=True):
                strategy[card, board, moves] = dict(zip(betting.legal, row.tolist(), strict=True))
        return strategy


def _normalised(weights: Vector) -> Vector:
    """Return rows that add up to 1; a row of zeros becomes uniform."""
    # Without positive regret every move is as good as the others.
    totals = weights.sum(axis=1, keepdims=True)
    uniform = np.full_like(weights, 1 / weights.shape[1])
    result: Vector = np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), uniform)
    return result


def _parse(moves: str) -> LeducBetting:
    """Return the betting of moves such as `crc/r`."""
    betting = LeducBetting()
    for letter in moves:
        betting = betting.next_round() if letter == "/" else betting.after(letter)
    return betting


def leduc_keys(betting: LeducBetting | None = None, board: str = "") -> Iterator[LeducKey]:
    """Yield all information sets with a choice, in the order of play."""
    betting = betting or LeducBetting()
    # The tree of public events: three board cards, and all own cards at each node.
    if betting.awaits_board:
        for card in CARDS:
            yield from leduc_keys(betting.next_round(), card)
    elif not betting.is_over:
        for card in CARDS:
            yield card, board, str(betting)
        for move in betting.legal:
            yield from leduc_keys(betting.after(move), board)


def write_strategy(strategy: Strategy, path: Path) -> None:
    """Write a strategy as text, with four decimals."""
    lines = [HEADING]
    for key in leduc_keys():
        card, board, moves = key
        row = "  ".join(f"{strategy[key].get(move, 0.0):.4f}" for move in MOVES)
        lines.append(f"{card:5}  {board or '-':5}  {moves or '-':8}  {row}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Compute the bundled strategy and write its file."""
    solver = LeducSolver()
    solver.run(ITERATIONS)
    write_strategy(solver.average(), BUNDLED)


if __name__ == "__main__":
    main()
