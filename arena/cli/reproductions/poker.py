"""Kuhn and Leduc poker: exploitability, and how many hands a claim needs.

google-deepmind/open_spiel, issue 155 (2020): the exploitability of agents after 10^7 episodes.
ToolPoker (2026), arXiv:2602.00528: 50 games per seed, with position swapping.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import numpy as np
from scipy.special import ndtr

from arena.cli.reproductions.run import ReproductionRun, Row, bracket, exact
from arena.evaluation.deviation import stated_policy
from arena.evaluation.exact.equilibrium import cfr_plus, game_value, solve
from arena.evaluation.exact.exploitability import policy_array
from arena.evaluation.exact.game_tree import Floats, GameTree, game_tree
from arena.evaluation.paired import games_needed
from arena.plugins.loader import make_game

ISSUE = "google-deepmind/open_spiel#155"
PUBLISHED = {
    "kuhn_poker": "A2C 0.198, RPG 0.193, NFSP 0.020",
    "leduc_poker": "A2C 1.051, RPG 0.674, NFSP 0.638",
}
HANDS = 50
ITERATIONS = (10, 100, 1000)


async def rows(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield the rows; nothing is sampled."""
    del run
    for name, published in PUBLISHED.items():
        tree = game_tree(make_game(name))
        yield Row(
            quantity=f"{name}: exploitability of random play",
            published=published,
            source=ISSUE,
            measured=exact(tree.exploitability(tree.uniform())),
            unit="chips",
            digits=3,
            note="Learned agents after 10^7 sampled games; ours are exact. Both numbers are "
            "NashConv / 2.",
        )
        for iterations in ITERATIONS:
            yield Row(
                quantity=f"{name}: CFR+ after {iterations} iterations",
                measured=exact(tree.exploitability(cfr_plus(tree, iterations))),
                unit="chips",
                digits=5,
            )
        equilibrium = solve(tree)
        yield Row(
            quantity=f"{name}: linear program",
            measured=exact(tree.exploitability(equilibrium)),
            unit="chips",
            digits=5,
        )
        kuhn = name == "kuhn_poker"
        yield Row(
            quantity=f"{name}: value for the first player",
            published="−1/18 = −0.05556" if kuhn else "",
            source="H. W. Kuhn (1950)" if kuhn else "",
            measured=bracket(game_value(tree, equilibrium)),
            unit="chips",
            digits=6,
            note="The bounds are those of the best responses.",
        )
    async for row in _hands():
        yield row


async def _hands() -> AsyncIterator[Row]:
    """Yield what 50 hands of Leduc poker show, and the hands that are needed."""
    tree = game_tree(make_game("leduc_poker"))
    arrays = {bot: _array(tree, bot) for bot in ("random", "odds", "equilibrium")}
    for bot in ("odds", "equilibrium"):
        yield Row(
            quantity=f"leduc_poker: exploitability of `bot:{bot}`",
            measured=exact(tree.exploitability(arrays[bot])),
            unit="chips",
            digits=3,
        )
    for first, second in (("equilibrium", "random"), ("equilibrium", "odds"), ("odds", "random")):
        edge, deviation = _edge(tree, arrays[first], arrays[second])
        power = float(ndtr(abs(edge) * math.sqrt(HANDS) / deviation - 1.96))
        needed = games_needed(edge, deviation)
        half = 1.96 * deviation / math.sqrt(HANDS)
        yield Row(
            quantity=f"leduc_poker: hands that show `{first}` ahead of `{second}` (80 % power)",
            published=f"{HANDS} hands per seed",
            source="arXiv:2602.00528, as summarised at koineu.com",
            measured=exact(math.nan if needed is None else needed),
            digits=0,
            note=f"The edge is {edge:+.3f} chips a hand with a standard deviation of "
            f"{deviation:.2f} (exact, both seats). {HANDS} hands have a half-width of {half:.2f} "
            f"chips and show the edge in {100 * power:.0f} % of all repetitions.",
        )


def _array(tree: GameTree, bot: str) -> Floats:
    if bot == "random":
        return tree.uniform()
    policy = stated_policy(f"bot:{bot}", tree.game)
    assert policy is not None, f"bot:{bot} states its probabilities"
    return policy_array(tree.game, [policy] * tree.game.num_players)


def _edge(tree: GameTree, first: Floats, second: Floats) -> tuple[float, float]:
    """Return the mean return of a hand of one policy against another, and its deviation.

    The policy has each seat in half of the hands.
    """
    means, squares = [], []
    for seat in (0, 1):
        mixed = np.where(tree.players == seat, first, second)
        mean, variance = tree.moments(mixed)
        means.append(mean[seat])
        squares.append(variance[seat] + mean[seat] ** 2)
    edge = float(np.mean(means))
    return edge, math.sqrt(float(np.mean(squares)) - edge**2)
