"""Plackett-Luce with seat effects: the model of who finishes ahead of whom.

Of those at a table one is best, of the others one is best, and so on (Luce 1959, Plackett 1975;
for two players Bradley-Terry 1952). Each of these choices is a softmax over utilities, and the
utility of a seat is its player's strength plus an effect of the seat.

The outcome of a game is the returns of its seats. In a game that one player wins and the others
lose alike, the first choice is all that is learned. Where k seats share the best return, each is
counted as 1/k of the choice: the half win for a draw that is usual with Bradley-Terry (Turner and
Firth 2012, Journal of Statistical Software 48(9)), for any k. When all that remain are tied,
nothing more is learned, but a game in which all are tied from the start is such a draw.

choix and openskill have no weights, ties and seat effects together, hence an own solver; without
ties and seat effects it agrees with choix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before the first game; weak, so that some games outweigh it."""

    games: float = 0.5
    """So many wins, and as many losses, against an opponent of strength 0, are added for each
    player, as R's PlackettLuce does (Turner et al. 2020, Computational Statistics 35). One who
    never won thus has a finite strength. Without games, strengths have the density of the logit
    of a Beta(0.5, 0.5) variable: its standard deviation is pi, or 546 Elo points."""
    seat: float = 0.5
    """The standard deviation of the seats' effects, which are Gaussian: 87 Elo points."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each thing counts in a fit."""

    choices: Floats
    wins: Floats
    """(players,) those of the prior."""
    losses: Floats
    """(players,) those of the prior."""
    centre: Floats
    """(seats,) the mean of the prior of the effects."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Games as arrays (games, seats)."""

    players: Ints
    """Who sits where, as an index; -1 for seats that a game does not have."""
    returns: Floats


@dataclass(frozen=True, slots=True)
class Choices:
    """What is learned from games: who was best of whom. Arrays (choices, seats)."""

    players: Ints
    """Who could be chosen, as an index; -1 elsewhere."""
    targets: Floats
    """Which part of the choice each seat was. Rows add up to 1."""
    kind: Ints
    """By (game, stage): the row that happened there, as equal choices are kept once."""
    game: Ints
    """By (game, stage): the game, as an index."""

    def weights(self, games: Floats) -> Floats:
        """Of the rows, for weights of the games."""
        return _sums(self.kind, games[self.game], len(self.players))


def choices(outcomes: Outcomes) -> Choices:
    """The stages of all games; ties as the module says."""
    here = outcomes.players >= 0
    told = here.any(axis=1)
    rows: list[Floats] = []
    games: list[Ints] = []
    while told.any() or not rows:
        best = here & (outcomes.returns == _highest(outcomes.returns, here))
        targets = best[told] / best[told].sum(axis=1, keepdims=True)
        rows.append(np.hstack([np.where(here, outcomes.players, -1)[told], targets]))
        games.append(np.flatnonzero(told))
        here = here & ~best
        told = (here & (outcomes.returns < _highest(outcomes.returns, here))).any(axis=1)
    kinds, kind = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    players, targets = np.hsplit(kinds, 2)
    return Choices(players.astype(np.int64), targets, kind.ravel(), np.concatenate(games))


def _highest(returns: Floats, here: NDArray[np.bool_]) -> Floats:
    """(games, 1) of the seats that are here; minus infinity where none is."""
    highest: Floats = np.where(here, returns, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    return highest


class PlackettLuce:
    """The posterior of strengths and seat effects, given choices. Its maximum is found by Newton.

    Parameters are one vector: the players' strengths, then the seats' effects.
    """

    def __init__(self, choices: Choices, num_players: int, prior: Prior | None = None) -> None:
        self._prior = prior or Prior()
        self._choices = choices
        count, self._seats = choices.players.shape
        self._num_players = num_players
        self._here = choices.players >= 0
        self._player = np.where(self._here, choices.players, 0)
        # Where a seat's part is added to: (player, seat), and twice (choice, parameter).
        seat = np.arange(self._seats)
        self._place = self._player * self._seats + seat
        row = np.arange(count)[:, None] * (num_players + self._seats)
        self._cells = np.stack([row + self._player, row + num_players + seat])

    def weights(self, games: Floats) -> Weights:
        """Of games as they are given and of the prior as it is."""
        added = np.full(self._num_players, self._prior.games)
        return Weights(self._choices.weights(games), added, added, np.zeros(self._seats))

    def drawn_weights(self, games: Floats, rng: np.random.Generator) -> Weights:
        """Of drawn games, with a draw of the prior.

        Where games have exponential weights, the prior's have gamma weights: the share of wins of
        k in n then is drawn from Beta(k + 0.5, n - k + 0.5), so that fits are spread as they
        should be also for a player who won nothing, or has not played.
        """
        added = rng.gamma(self._prior.games, size=(2, self._num_players)) + 1e-9
        centre = rng.normal(np.zeros(self._seats), self._prior.seat)
        return Weights(self._choices.weights(games), added[0], added[1], centre)

    def fit(self, weights: Weights, start: Floats | None = None) -> Floats:
        """The maximum a posteriori; `start` is where the search begins."""
        x = np.zeros(self._num_players + self._seats) if start is None else start
        for _ in range(1000):
            step = self._newton_step(x, weights)
            # A softmax's third derivative is at most its second times the range of the utilities'
            # changes (Bach 2010, Electronic Journal of Statistics 4), so a step that changes them
            # by 1 at most ends lower. Close to the maximum steps are whole.
            parts = np.split(step, [self._num_players])
            change = sum(np.ptp(np.append(part, 0.0)) for part in parts)
            x = x + step / max(1.0, change)
            if change < 1e-3:  # Newton's error is about the square of its last step.
                break
        return x

    def _chances(self, x: Floats) -> Floats:
        """(choices, seats) of being chosen."""
        strengths, effects = np.split(np.exp(x), [self._num_players])
        worth = self._here * strengths[self._player] * effects
        chances: Floats = worth / worth.sum(axis=1, keepdims=True)
        return chances

    def _newton_step(self, x: Floats, weights: Weights) -> Floats:
        """Minus the inverse Hessian times the gradient."""
        n = self._num_players
        p = self._chances(x)
        weighted = weights.choices[:, None] * p
        slope = weighted - weights.choices[:, None] * self._choices.targets
        ahead = 1 / (1 + np.exp(-x[:n]))  # The chance of a win in a game of the prior.
        by_strength = weights.losses * ahead - weights.wins * (1 - ahead)
        by_strength += _sums(self._player, slope, n)
        by_effect = slope.sum(axis=0) + (x[n:] - weights.centre) / self._prior.seat**2
        # The Hessian of a softmax is diag(p) - p p', here seen through who sits where.
        places = _sums(self._place, weighted, n * self._seats).reshape(n, self._seats)
        rooted = np.sqrt(weights.choices)[:, None] * p
        seen = _sums(self._cells, np.stack([rooted, rooted]), len(p) * len(x))
        seen = seen.reshape(len(p), len(x))
        hessian = -(seen.T @ seen)
        hessian[:n, n:] += places
        hessian[n:, :n] += places.T
        diagonal = np.concatenate([places.sum(axis=1), places.sum(axis=0)])
        diagonal[:n] += (weights.wins + weights.losses) * ahead * (1 - ahead)
        diagonal[n:] += self._prior.seat**-2
        hessian[np.diag_indices_from(hessian)] += diagonal
        return -np.linalg.solve(hessian, np.concatenate([by_strength, by_effect]))


def _sums(index: Ints, values: Floats, size: int) -> Floats:
    """The sum of the values at each index below `size`."""
    sums: Floats = np.bincount(index.ravel(), values.ravel(), size).astype(float, copy=False)
    return sums
