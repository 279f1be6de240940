"""Policies of games that are small enough for a complete traversal: best responses and mixtures."""

from __future__ import annotations

from collections.abc import Sequence

from arena.core.game import Game
from arena.evaluation.exact import (
    InformationSet,
    Policy,
    Situation,
    game_tree,
    policy_array,
)


def information_sets(game: Game) -> dict[InformationSet, Situation]:
    """Return all situations in which a player has a choice, in the order of play."""
    return {InformationSet.of(each.observation): each for each in game_tree(game).situations}


def best_response_value(game: Game, policies: Sequence[Policy], player: int) -> float:
    """Return max u_i over the policies of `player` i against the others'; its own does not matter.

    Raises UsageError as `expected_returns` does.
    """
    tree = game_tree(game)
    best = tree.best_response(policy_array(game, policies), player)
    return float(tree.values(best)[0, player])
