"""Equilibria of small games: the linear program, CFR+, and the values of games."""

from __future__ import annotations

import pytest
from equilibria import cfr_plus, game_value, solve

from arena.core.game import Game
from arena.evaluation.exact import game_tree
from games.goofspiel.game import Goofspiel
from games.kuhn_poker.game import KuhnPoker
from games.leduc_poker.rules import LeducPoker
from games.liars_dice.rules import LiarsDice


@pytest.mark.parametrize(
    ("game", "value"),
    [
        (KuhnPoker(), -1 / 18),
        # Of these players neither has an advantage.
        (Goofspiel(cards=3), 0.0),
        (LeducPoker(), -0.0856064),
    ],
)
def test_a_solved_game_has_its_value_and_cannot_be_exploited(game: Game, value: float) -> None:
    tree = game_tree(game)
    policy = solve(tree)
    assert tree.exploitability(policy) == pytest.approx(0, abs=1e-9)
    estimate = game_value(tree, policy)
    assert estimate.value == pytest.approx(value, abs=1e-6)
    assert estimate.low == pytest.approx(estimate.high, abs=1e-9)


def test_cfr_plus_approaches_the_equilibrium() -> None:
    tree = game_tree(LiarsDice(dice=1, faces=3))
    early, late = (tree.exploitability(cfr_plus(tree, n)) for n in (10, 200))
    assert 0 <= late < early / 5 and late < 0.005
    # The exact value is within the bounds of any policy.
    bounds, exact = game_value(tree, cfr_plus(tree, 10)), game_value(tree, solve(tree))
    assert bounds.low <= exact.value <= bounds.high
