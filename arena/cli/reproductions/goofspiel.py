"""Goofspiel against random bids: the number of the prize is the best answer.

S. M. Ross, "Goofspiel: the game of pure strategy", Journal of Applied Probability 8 (1971). The
card i wins (i - 1)/n of the random bids and loses (n - i)/n, so its owner is ahead by

    sum_i i (2i - 1 - n) / n = (n^2 - 1) / 6   points.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from arena.cli.reproductions.run import Numbers, ReproductionRun, Row, exact, mean, share
from arena.core.game import Game
from arena.episodes.record import Episode
from arena.evaluation.exact.game_tree import Floats, GameTree, game_tree
from arena.plugins.loader import make_game
from games.goofspiel.game import Bid, BidsRevealed, Goofspiel, GoofspielState, PrizeTurnedUp

ROSS = "S. M. Ross (1971), section 2; report ORC 70-25 (1970)"
CARDS = 13


class GoofspielForPoints(Goofspiel):
    """Goofspiel of two in which the difference of points counts, as in Ross's paper."""

    name = "goofspiel_for_points"

    def initial_state(self) -> GoofspielState:
        return _PointsState(self)


class _PointsState(GoofspielState):
    def returns(self) -> tuple[float, ...]:
        first, second = self.points
        return (float(first - second), float(second - first))


def ahead(_: Game, episode: Episode) -> Numbers:
    """Measure the points by which the first player is ahead, and whether it won."""
    events = (event for ply in episode.plies for event in ply.events)
    last = [event for event in events if isinstance(event, BidsRevealed)][-1]
    return float(last.points[0] - last.points[1]), float(episode.outcome.returns[0] > 0)


async def rows(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield the rows."""
    game = make_game("goofspiel", cards=CARDS)
    games = await run.play("matching", game, ["bot:matching", "bot:random"], ahead, 2000)
    yield Row(
        quantity=f"points ahead, {CARDS} cards, number of the prize against random bids",
        published=f"{(CARDS**2 - 1) // 6}",
        source=f"{ROSS}: matching is best; the number follows from it",
        measured=mean([points for points, _ in games]),
        unit="points",
    )
    yield Row(
        quantity="games won by it",
        measured=share([won for _, won in games]),
        unit="%",
        digits=1,
    )
    for cards in (3, 4):
        tree = game_tree(GoofspielForPoints(cards=cards))
        best = tree.best_response(tree.uniform(), 0)
        yield Row(
            quantity=f"points ahead of the exact best answer to random bids, {cards} cards",
            published=f"{(cards**2 - 1) / 6:.4f}",
            source=ROSS,
            measured=exact(float(tree.values(best)[0, 0])),
            unit="points",
            digits=4,
            note="So no answer is better than the number of the prize.",
        )
        yield _winning(cards)


def _winning(cards: int) -> Row:
    """Return the row of the number of the prize if only winning counts."""
    tree = game_tree(Goofspiel(cards=cards))
    matching = np.where(tree.players == 0, _matching(tree), tree.uniform())
    value, best = (
        float(tree.values(policy)[0, 0])
        for policy in (matching, tree.best_response(tree.uniform(), 0))
    )
    better = f"The best answer has {best:.4f}: Ross's theorem is about points, not about winning."
    return Row(
        quantity=f"mean score of it if only winning counts, {cards} cards",
        measured=exact(value),
        digits=4,
        note=better if best > value + 1e-9 else "No answer has more.",
    )


def _matching(tree: GameTree) -> Floats:
    """Return the policy of the number of the prize, [pairs]."""
    policy = list[float]()
    for situation in tree.situations:
        events, legal = situation.observation.events, situation.observation.legal_actions
        prize = next(e.prize for e in reversed(events) if isinstance(e, PrizeTurnedUp))
        policy += [float(bid == Bid(prize)) for bid in legal]
    return np.array(policy)
