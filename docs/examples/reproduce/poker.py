"""Kuhn and Leduc poker: exploitability, exactly. `python poker.py`

Published: after 10^7 sampled games A2C, RPG and NFSP have an exploitability of 0.198, 0.193 and
0.020 chips in Kuhn, 1.051, 0.674 and 0.638 in Leduc poker (google-deepmind/open_spiel, issue 155,
2020).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from equilibria import cfr_plus, game_value, solve

from arena import Action, Observation, Seat, make_agent, make_game
from arena.evaluation.exact import Floats, GameTree, game_tree, policy_array


def bot_policy(tree: GameTree, bot: str) -> Floats:
    """Return the policy of a bot that states its probabilities, in all seats."""

    def policy(observation: Observation) -> Mapping[Action, float]:
        # A fresh bot each time: the traversal asks in no order of play.
        seat = Seat(tree.game, observation.player, random.Random(0))
        agent: Any = make_agent(f"bot:{bot}", seat)
        found: Mapping[Action, float] = agent.probabilities(observation)
        return found

    return policy_array(tree.game, [policy] * tree.game.num_players)


if __name__ == "__main__":
    for name in ("kuhn_poker", "leduc_poker"):
        tree = game_tree(make_game(name))
        print(f"{name}: exploitability in chips")
        print(f"  random play {tree.exploitability(tree.uniform()):.3f}")
        for iterations in (10, 100, 1000):
            policy = cfr_plus(tree, iterations)
            print(f"  CFR+ after {iterations} iterations {tree.exploitability(policy):.5f}")
        value = game_value(tree, solve(tree)).value
        print(f"  linear program {tree.exploitability(solve(tree)):.5f}, its value {value:.6f}")
    for bot in ("odds", "equilibrium"):
        exact = tree.exploitability(bot_policy(tree, bot))
        print(f"leduc_poker: exploitability of `bot:{bot}` {exact:.3f}")
