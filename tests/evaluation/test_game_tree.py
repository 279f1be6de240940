"""The tree of a small game as arrays: values of actions, and games that are too large."""

from __future__ import annotations

import numpy as np
import pytest

from arena.core.errors import UsageError
from arena.evaluation import exact as tree_module
from arena.evaluation.exact import GameTree, estimated_positions, game_tree
from arena.plugins.loader import make_game


def test_an_action_value_is_what_its_choice_changes() -> None:
    """Replacing the choice at I changes u_i by P(I) times the difference of the action values."""
    tree = GameTree(make_game("kuhn_poker"))
    policy = tree.softmax(np.random.default_rng(0).normal(size=len(tree.sets)))
    values = tree.action_values(policy)
    for number, (first, situation) in enumerate(
        zip(tree.first_pairs, tree.situations, strict=True)
    ):
        player, returns = situation.observation.player, []
        for chosen in (first, first + 1):
            changed = np.where(tree.sets == number, 0.0, policy)
            changed[chosen] = 1.0
            returns.append(tree.values(changed)[0, player])
        reached = (returns[1] - returns[0]) / (values[first + 1] - values[first])
        # A third of the deals give the card; the moves before have probabilities below 1.
        assert 0 < reached < 1 / 3 + 1e-12
        if situation.observation.num_events == 1:
            assert reached == pytest.approx(1 / 3)


def test_the_tree_of_a_game_is_built_once() -> None:
    game = make_game("kuhn_poker")
    assert game_tree(game) is game_tree(game)


def test_a_size_is_estimated_from_random_games() -> None:
    assert estimated_positions(make_game("kuhn_poker")) == pytest.approx(55, rel=0.1)
    assert estimated_positions(make_game("leduc_poker")) == pytest.approx(1936, rel=0.1)


@pytest.mark.parametrize("name", ["cluedo", "tictactoe"])
def test_a_game_that_is_too_large_is_refused_with_its_size(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_module, "MOST_POSITIONS", 1000)
    with pytest.raises(UsageError, match=r"about \de\+\d+ positions, at most 1,000 are possible"):
        GameTree(make_game(name))


def test_the_limit_itself_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game("leduc_poker")  # It has 1,936 positions, too few for the estimate.
    monkeypatch.setattr(tree_module, "MOST_POSITIONS", 1935)
    with pytest.raises(UsageError, match="more than 1,935 positions"):
        GameTree(game)
    monkeypatch.setattr(tree_module, "MOST_POSITIONS", 1936)
    assert len(GameTree(game).situations) == 288
