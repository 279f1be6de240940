"""Equilibria of small games of two players whose returns have the sum 0, and their values.

`solve` is exact up to rounding: the linear program in sequence form (D. Koller, N. Megiddo and B.
von Stengel, "Fast algorithms for finding randomized strategies in game trees", STOC 1994). With x a
plan of player 0, whose entry of a pair is the product of its choices up to this pair, and A the
expected returns of player 0 by the last pairs of both, it is the greatest

    p_0  with  E x = e,  A' x >= F' p,  x >= 0,

where E x = e says that the choices at an information set add up to the entry before it, and F the
same of player 1, whose plan is the dual solution.

CFR+ (O. Tammelin, "Solving large imperfect information games using CFR+", 2014, arXiv:1407.5042)
with alternating updates. In iteration t, for each information set I of the player to update,

    R(I, a) <- max(0, R(I, a) + v(I, a) - sum_b sigma(I, b) v(I, b)),
    sigma(I, a) = R(I, a) / sum_b R(I, b), or even if the sum is 0,

with v the counterfactual value. The result is the average of sigma with the weights
t * (the player's own reach of I).
"""

from __future__ import annotations

import numpy as np
from sequence_form import sequence_form

from arena.core.errors import ArenaError
from arena.evaluation.exact import Floats, GameTree
from arena.evaluation.records import Estimate


def cfr_plus(tree: GameTree, iterations: int) -> Floats:
    """Return the average policy of CFR+ after some iterations, [pairs]."""
    regrets, sums, players = np.zeros(len(tree.sets)), np.zeros(len(tree.sets)), tree.players
    for iteration in range(1, iterations + 1):
        # Alternating: each player answers the newest policy of those before it.
        for player in range(tree.game.num_players):
            policy = tree.normalised(regrets)
            values, _ = tree.counterfactual_values(policy)
            mean = np.add.reduceat(policy * values, tree.first_pairs)[tree.sets]
            own = players == player
            regrets = np.where(own, np.maximum(0.0, regrets + values - mean), regrets)
            sums += np.where(own, iteration * tree.plan(policy), 0.0)
    return tree.normalised(sums)


def solve(tree: GameTree) -> Floats:
    """Return an equilibrium of a game of two players with sum 0, [pairs]. Raises ArenaError."""
    from scipy.optimize import linprog  # Imported late: it takes half a second.
    from scipy.sparse import bmat, csr_matrix

    returns, (first, second) = sequence_form(tree)
    # One column for each sequence of player 0 and for each information set of player 1 (and the
    # empty one); the objective is the value p_0 at the start of player 1.
    size, values = first.shape[1], second.shape[0]
    objective = np.zeros(size + values)
    objective[size] = -1.0
    start = np.zeros(first.shape[0])
    start[0] = 1.0
    found = linprog(  # type: ignore[call-overload]  # The stubs omit sparse matrices.
        objective,
        A_ub=bmat([[csr_matrix(-returns.T), second.T]]),
        b_ub=np.zeros(second.shape[1]),
        A_eq=bmat([[first, csr_matrix((first.shape[0], values))]]),
        b_eq=start,
        bounds=[(0, None)] * size + [(None, None)] * values,
        method="highs",
    )
    if not found.success:
        raise ArenaError(f"{tree.game!r} was not solved: {found.message}")
    plans = found.x[1:size] - found.ineqlin.marginals[1:]
    return tree.normalised(np.maximum(plans, 0.0))


def game_value(tree: GameTree, policy: Floats) -> Estimate:
    """Return the value of a game of two players with sum 0 for player 0, and exact bounds of it.

    No player 1 can hold player 0 to less than its policy guarantees, and no player 0 gets more than
    a best response to the policy of player 1.
    """
    best, worst = (tree.values(tree.best_response(policy, player))[0, 0] for player in (0, 1))
    return Estimate(float(tree.values(policy)[0, 0]), float(worst), float(best), 1)
