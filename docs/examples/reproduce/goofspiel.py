"""Goofspiel: the number of the prize against random bids; `python goofspiel.py [GAMES]`.

S. M. Ross, "Goofspiel: the game of pure strategy", Journal of Applied Probability 8 (1971): it is
the best answer. The card i wins (i - 1)/n of the random bids and loses (n - i)/n, so its owner is
ahead by sum_i i (2i - 1 - n) / n = (n^2 - 1) / 6 points.
"""

from __future__ import annotations

from played import mean, play_games, share

from arena import Episode, Game, make_game
from arena.evaluation.exact import game_tree
from games.goofspiel.game import BidsRevealed, Goofspiel, GoofspielState

CARDS = 13


class GoofspielForPoints(Goofspiel):
    """Goofspiel of two in which the difference of points counts, as in Ross's paper."""

    name = "goofspiel_for_points"

    def initial_state(self) -> GoofspielState:
        return PointsState(self)


class PointsState(GoofspielState):
    """A position whose returns are points."""

    def returns(self) -> tuple[float, ...]:
        first, second = self.points
        return (float(first - second), float(second - first))


def ahead(_: Game, episode: Episode) -> tuple[float, bool]:
    """Return the points by which the first player is ahead, and whether it won."""
    events = (event for ply in episode.plies for event in ply.events)
    last = [event for event in events if isinstance(event, BidsRevealed)][-1]
    return float(last.points[0] - last.points[1]), episode.outcome.returns[0] > 0


if __name__ == "__main__":
    game = make_game("goofspiel", cards=CARDS)
    found = play_games(game, ["bot:matching", "bot:random"], ahead, 2000)
    print(f"points ahead, {CARDS} cards: {mean([points for points, _ in found])}")
    print(f"  by Ross's theorem {(CARDS**2 - 1) // 6}; won {share([won for _, won in found])}")
    for cards in (3, 4):
        tree = game_tree(GoofspielForPoints(cards=cards))
        best = tree.best_response(tree.uniform(), 0)
        value, theorem = tree.values(best)[0, 0], (cards**2 - 1) / 6
        print(f"best answer to random bids, {cards} cards: {value:.4f} (theorem: {theorem:.4f})")
