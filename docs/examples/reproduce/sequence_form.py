"""The sequence form of a small game: plans in place of policies, linear constraints and returns.

A sequence of a player is the list of its own choices before a position. It is named by the last
one: number 0 is the empty sequence, and 1 + k the one that ends with pair k of the tree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from arena.evaluation.exact import GameTree

Sequences = NDArray[np.int_]


def latest_choices(tree: GameTree) -> Sequences:
    """Return the sequence of each player at each position, [positions, players]."""
    latest = np.zeros((len(tree.parents), tree.game.num_players), int)
    for level in tree.levels[1:]:
        latest[level] = latest[tree.parents[level]]
        chosen = level.start + np.flatnonzero(tree.pairs[level] >= 0)
        pairs = tree.pairs[chosen]
        latest[chosen, tree.players[pairs]] = 1 + pairs
    return latest


def sequence_form(tree: GameTree) -> tuple[csr_matrix, list[csr_matrix]]:
    """Return the sequence form of a game of two players, for linear programs.

    The expected returns of player 0 by the sequences of both, [1 + pairs, 1 + pairs], and the
    constraints of each player, [1 + sets, 1 + pairs]. The rows and columns of the other player are
    empty.
    """
    pairs, sets = len(tree.sets), len(tree.first_pairs)
    latest, chances = latest_choices(tree), tree.chances.copy()
    for level in tree.levels[1:]:
        chances[level] *= chances[tree.parents[level]]
    shape = (1 + pairs, 1 + pairs)
    returns = csr_matrix((chances * tree.returns[:, 0], (latest[:, 0], latest[:, 1])), shape)
    earlier = 1 + tree.earlier
    constraints = []
    for player in (0, 1):
        own = np.flatnonzero(tree.players == player)
        head = tree.first_pairs[np.isin(tree.first_pairs, own)]
        ones = [np.ones(1), np.ones(len(own)), -np.ones(len(head))]
        rows = [[0], 1 + tree.sets[own], 1 + tree.sets[head]]
        columns = [[0], 1 + own, earlier[head]]
        entries = (np.concatenate(ones), (np.concatenate(rows), np.concatenate(columns)))
        constraints.append(csr_matrix(entries, (1 + sets, 1 + pairs)))
    return returns, constraints
