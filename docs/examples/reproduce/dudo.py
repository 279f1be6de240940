"""Dudo with one die for each of two players, solved exactly: `python dudo.py` (13 minutes).

Published: the first player loses 7/258 = 0.027131783 (T. W. Neller and M. Lanctot, "An introduction
to counterfactual regret minimization", 2013). Ones are wild there; here sixes are, the same game.
"""

from __future__ import annotations

from equilibria import game_value, solve

from arena import make_game
from arena.evaluation.exact import game_tree

if __name__ == "__main__":
    tree = game_tree(make_game("liars_dice", players=2, dice=1))
    policy = solve(tree)  # A linear program in sequence form.
    value = game_value(tree, policy)
    print(f"value for the first player: {value.value:.9f} [{value.low:.9f}, {value.high:.9f}]")
    print(f"exploitability of this policy: {tree.exploitability(policy):.9f}")
    print(f"exploitability of random play: {tree.exploitability(tree.uniform()):.4f}")
