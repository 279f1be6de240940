"""Fixed points of the objective against random opponents in small games, by exact gradients."""

from __future__ import annotations

import pytest
from exact_gradients import Judged, Objective, drawn_policy, fixed_point, judged_by_the_game, lost

from arena.evaluation.exact.game_tree import game_tree
from arena.plugins.loader import make_game
from trainers.config.update import UpdateOptions

TREE = game_tree(make_game("kuhn_poker"))
HARD = ((7, 1), (11, 1))
"""Seed of the opponent and seat of the learner, where a division by std misses the optimum."""


def loss_of(objective: Objective, seed: int, seat: int) -> float:
    policy = drawn_policy(TREE, seed)
    return lost(TREE, fixed_point(TREE, policy, seat, objective, 100, 3.0), seat)


@pytest.mark.parametrize(("seed", "seat"), HARD)
@pytest.mark.parametrize("loss", ["cispo", "ppo"])
def test_the_fixed_point_is_a_best_response(seed: int, seat: int, loss: str) -> None:
    options = UpdateOptions(loss_fn="ppo" if loss == "ppo" else "cispo")
    assert loss_of(Objective(options=options), seed, seat) < 0.01


@pytest.mark.parametrize(("seed", "seat"), HARD)
def test_division_by_the_standard_deviation_moves_the_optimum(seed: int, seat: int) -> None:
    assert loss_of(Objective(scale=True), seed, seat) > 0.1


def test_judged_decisions_move_the_optimum() -> None:
    tree = game_tree(make_game("liars_dice", dice=1, faces=2))
    policy = drawn_policy(tree, 1)

    def loss(judged: Judged | None) -> float:
        objective = Objective(judged=judged, game_weight=0.5)
        return lost(tree, fixed_point(tree, policy, 1, objective, 100, 3.0), 1)

    assert loss(judged_by_the_game(tree)) > 0.05
    assert loss(None) < 0.01
