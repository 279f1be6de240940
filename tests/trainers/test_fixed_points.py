"""Fixed points of the objective against random opponents in small games, by exact gradients."""

from __future__ import annotations

import pytest
from exact_gradients import drawn_policy, fixed_point, lost

from arena.evaluation.exact.game_tree import game_tree
from arena.plugins.loader import make_game

TREE = game_tree(make_game("kuhn_poker"))


@pytest.mark.parametrize("seed", [7, 11])
def test_only_division_by_the_standard_deviation_moves_the_optimum(seed: int) -> None:
    """The fixed point is a best response to the opponent of this seed, with either loss."""
    policy, seat = drawn_policy(TREE, seed), 1
    assert lost(TREE, fixed_point(TREE, policy, seat), seat) < 0.01
    assert lost(TREE, fixed_point(TREE, policy, seat, loss_fn="ppo"), seat) < 0.01
    assert lost(TREE, fixed_point(TREE, policy, seat, scale=True), seat) > 0.1
