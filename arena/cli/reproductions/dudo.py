"""Dudo with one die for each of two players: the value of the game, exactly.

T. W. Neller and M. Lanctot, "An introduction to counterfactual regret minimization" (2013). Ones
are wild there and rank highest among equal numbers; here the sixes are, which is the same game.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from arena.cli.reproductions.run import ReproductionRun, Row, bracket, exact
from arena.evaluation.exact.equilibrium import game_value, solve
from arena.evaluation.exact.game_tree import game_tree
from arena.plugins.loader import make_game


async def rows(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield the rows; nothing is sampled."""
    del run
    tree = game_tree(make_game("liars_dice", players=2, dice=1))
    policy = solve(tree)
    yield Row(
        quantity="value for the first player (a win counts 1, a loss −1)",
        published=f"−7/258 = {-7 / 258:.9f}".replace("= -", "= −"),
        source="Neller and Lanctot (2013), from memory: the stored text ends before the figure",
        measured=bracket(game_value(tree, policy)),
        digits=9,
        note="Linear program in sequence form; the bounds are those of the best responses.",
    )
    yield Row(
        quantity="exploitability of this policy",
        measured=exact(tree.exploitability(policy)),
        digits=9,
    )
    yield Row(
        quantity="exploitability of random play",
        measured=exact(tree.exploitability(tree.uniform())),
        digits=4,
    )
