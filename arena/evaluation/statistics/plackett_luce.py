"""Plackett-Luce model with seat effects: the order in which the players of a table finish.

The first place is a choice among all seats, the second a choice among the others, and so on (Luce
1959, Plackett 1975; with two players Bradley-Terry 1952). Each choice is a softmax over utilities:

    P(seat s is chosen) = exp(u[s]) / sum over the remaining seats r of exp(u[r]),
    u[s] = strength of the player in s + effect of seat s.

The outcome of a game is the returns of its seats. If one player wins and the others lose equally,
only the first choice is known. If k seats share the best return, each counts as 1/k of the choice:
for k = 2 the half win that is usual with Bradley-Terry (Turner and Firth 2012, Journal of
Statistical Software 48(9)). If all remaining seats are tied, there is no further information,
except in a game in which all seats are tied from the start: that is a draw of all.

choix and openskill do not support weights, ties and seat effects together, hence this solver;
without ties and seat effects it agrees with choix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prior:
    """Prior distribution of strengths and seat effects; weak, so a few games outweigh it."""

    games: float = 0.5
    """Number of wins, and of losses, against an opponent of strength 0 that are added for each
    player, as in R's PlackettLuce (Turner et al. 2020, Computational Statistics 35). A player that
    never won thus has a finite strength. Without games, strengths have the density of the logit
    of a Beta(0.5, 0.5) variable: its standard deviation is pi, or 546 Elo points."""
    seat: float = 0.5
    """Standard deviation of the Gaussian seat effects: 87 Elo points."""


@dataclass(frozen=True, slots=True)
class FitWeights:
    """FitWeights of the choices and of the prior in one fit."""

    choices: Floats
    """(choices,)"""
    wins: Floats
    """(players,) wins of the prior."""
    losses: Floats
    """(players,) losses of the prior."""
    centre: Floats
    """(seats,) mean of the prior of the seat effects."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Games as arrays (games, seats)."""

    players: Ints
    """Index of the player in each seat; -1 for seats that a game does not have."""
    returns: Floats


@dataclass(frozen=True, slots=True)
class Choices:
    """The distinct choices of all games. Arrays (choices, seats)."""

    players: Ints
    """Index of the player in each remaining seat; -1 elsewhere."""
    targets: Floats
    """Part of the choice that fell on each seat. Rows add up to 1."""
    kind: Ints
    """Row of the choice at each (game, stage): equal choices share a row."""
    game: Ints
    """Index of the game of each (game, stage)."""

    def weights(self, games: Floats) -> Floats:
        """Return the weights of the rows for weights of the games."""
        return _sums(self.kind, games[self.game], len(self.players))


def choices(outcomes: Outcomes) -> Choices:
    """Return the choices of all stages of all games; ties as in the module's docstring."""
    here = outcomes.players >= 0  # (games, seats) seats that are not placed yet
    informative = here.any(axis=1)  # (games,) games whose present stage is a choice
    rows: list[Floats] = []
    games: list[Ints] = []
    # One pass per stage: first place, second place, … The first takes each game, also a draw of all
    # seats. `not rows` makes one pass without any game, which gives the arrays their shape.
    while informative.any() or not rows:
        # (games, seats): seats that share the best return of those not placed yet.
        best = here & (outcomes.returns == _highest(outcomes.returns, here))
        # k tied seats have 1/k each; shape (informative games, seats).
        targets = best[informative] / best[informative].sum(axis=1, keepdims=True)
        # A row describes a choice completely: players of the remaining seats, then the targets.
        rows.append(np.hstack([np.where(here, outcomes.players, -1)[informative], targets]))
        games.append(np.flatnonzero(informative))
        # Tied seats leave together, since their order is unknown.
        here = here & ~best
        # Seats that are all tied give no further information.
        informative = (here & (outcomes.returns < _highest(outcomes.returns, here))).any(axis=1)
    # Games with few distinct line-ups have few distinct choices: a fit costs one row for each.
    kinds, kind = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    # Player numbers went through floats with the targets; small integers are exact there.
    players, targets = np.hsplit(kinds, 2)
    return Choices(players.astype(np.int64), targets, kind.ravel(), np.concatenate(games))


def _highest(returns: Floats, here: NDArray[np.bool_]) -> Floats:
    """Return the highest return of the seats that are here, (games, 1); -inf if there is none."""
    # `initial` defines the maximum also for arrays without seats.
    highest: Floats = np.where(here, returns, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    return highest


class PlackettLuce:
    """The posterior of strengths and seat effects given choices, maximized by Newton's method.

    The parameters are one vector x: the players' strengths, then the seats' effects.
    """

    def __init__(self, choices: Choices, num_players: int, prior: Prior | None = None) -> None:
        self._prior = prior or Prior()
        self._choices = choices
        count, self._seats = choices.players.shape
        self._num_players = num_players
        self._here = choices.players >= 0
        # Absent seats point to player 0, a valid index; as p = y = 0 there, they add 0 to sums.
        self._player = np.where(self._here, choices.players, 0)
        # Flat indices for sums by `_sums`: `_place` of (player, seat); `_cells` of (choice,
        # parameter), once for the player's strength and once for the seat's effect.
        seat = np.arange(self._seats)
        self._place = self._player * self._seats + seat
        # Start of each choice in a flat array of shape (choices, parameters).
        row = np.arange(count)[:, None] * (num_players + self._seats)
        self._cells = np.stack([row + self._player, row + num_players + seat])

    def weights(self, games: Floats) -> FitWeights:
        """Return the weights of a fit to these games with the prior itself."""
        # As many wins as losses against strength 0: the prior is symmetric about 0.
        added = np.full(self._num_players, self._prior.games)
        return FitWeights(self._choices.weights(games), added, added, np.zeros(self._seats))

    def drawn_weights(self, games: Floats, rng: np.random.Generator) -> FitWeights:
        """Return the weights of a fit to drawn games, with a draw of the prior.

        If games have exponential weights, wins and losses of the prior have gamma weights: with k
        wins in n games, the share of wins is then drawn from Beta(k + 0.5, n - k + 0.5). So fits
        have the right spread also for a player that never won or has not played.
        """
        # The 1e-9 keeps a pull towards 0 if the draw is 0; without it a strength could be infinite.
        added = rng.gamma(self._prior.games, size=(2, self._num_players)) + 1e-9
        # Moving the centre draws from a Gaussian prior: without data, the fit is the centre itself.
        centre = rng.normal(np.zeros(self._seats), self._prior.seat)
        return FitWeights(self._choices.weights(games), added[0], added[1], centre)

    def fit(self, weights: FitWeights, start: Floats | None = None) -> Floats:
        """Return the maximum a posteriori; `start` is the first point of the search."""
        # All equal at first. Fits to drawn games start at the fit to all games, close to their end.
        x = np.zeros(self._num_players + self._seats) if start is None else start
        # With the prior the log posterior is strictly concave, so it has one maximum. The limit
        # only guards against an endless loop.
        for _ in range(1000):
            step = self._newton_step(x, weights)
            # The third derivative of a softmax is at most its second times the range of the
            # changes of utilities (self-concordance; Bach 2010, Electronic Journal of Statistics
            # 4). So a step that changes utilities by at most 1 improves the posterior, and close
            # to the maximum steps are full Newton steps. `append` includes the prior's opponent,
            # whose utility is always 0.
            parts = np.split(step, [self._num_players])
            change = sum(np.ptp(np.append(part, 0.0)) for part in parts)
            x = x + step / max(1.0, change)
            if change < 1e-3:  # Newton's error is about the square of its last step.
                break
        return x

    def _chances(self, x: Floats) -> Floats:
        """Return the probability of each choice, (choices, seats); 0 for absent seats."""
        # exp(strength + effect) is a product; `_here` makes it 0 for absent seats.
        strengths, effects = np.split(np.exp(x), [self._num_players])
        worth = self._here * strengths[self._player] * effects
        chances: Floats = worth / worth.sum(axis=1, keepdims=True)
        return chances

    def _newton_step(self, x: Floats, weights: FitWeights) -> Floats:
        """Return -H^-1 g for gradient g and Hessian H of the negative log posterior.

        For one choice with probabilities p, targets y and weight w, by utility:
        g = w (p - y),  H = w (diag(p) - p p').
        """
        n = self._num_players
        p = self._chances(x)
        # (choices, seats): w p, then the gradient by utility w (p - y).
        weighted = weights.choices[:, None] * p
        slope = weighted - weights.choices[:, None] * self._choices.targets
        # A game of the prior is won with probability 1 / (1 + exp(-strength)).
        ahead = 1 / (1 + np.exp(-x[:n]))
        # The prior's -wins log(a) - losses log(1 - a) with a = ahead has the gradient
        # losses a - wins (1 - a), because da/dstrength = a (1 - a).
        by_strength = weights.losses * ahead - weights.wins * (1 - ahead)
        # A utility is strength + effect: each parameter's gradient is the sum of the slopes of its
        # utilities. The seats' Gaussian prior adds (effect - centre) / sd^2.
        by_strength += _sums(self._player, slope, n)
        by_effect = slope.sum(axis=0) + (x[n:] - weights.centre) / self._prior.seat**2
        # A utility is the sum of two parameters, so each term of H occurs in four blocks. First
        # sum w diag(p): by (player, seat), for the off-diagonal blocks and, summed, the diagonals.
        places = _sums(self._place, weighted, n * self._seats).reshape(n, self._seats)
        # Then - sum w p p' = -A'A, where A (choices, parameters) holds sqrt(w) p by parameter.
        rooted = np.sqrt(weights.choices)[:, None] * p
        by_parameter = _sums(self._cells, np.stack([rooted, rooted]), len(p) * len(x))
        by_parameter = by_parameter.reshape(len(p), len(x))
        # (parameters, parameters): players first, then seats.
        hessian = -(by_parameter.T @ by_parameter)
        # sum w diag(p) between player and seat: how often, by weight, this player was in this seat.
        hessian[:n, n:] += places
        hessian[n:, :n] += places.T
        # Its diagonal blocks are diagonal, because a utility has one player and one seat.
        diagonal = np.concatenate([places.sum(axis=1), places.sum(axis=0)])
        # The prior: a logistic game for each player, a Gaussian for each seat.
        diagonal[:n] += (weights.wins + weights.losses) * ahead * (1 - ahead)
        diagonal[n:] += self._prior.seat**-2
        hessian[np.diag_indices_from(hessian)] += diagonal
        # The prior makes H positive definite, also for players and seats without games.
        return -np.linalg.solve(hessian, np.concatenate([by_strength, by_effect]))


def _sums(index: Ints, values: Floats, size: int) -> Floats:
    """Return the sum of the values at each index below `size`, (size,)."""
    # Third argument: the least length, so indices without values get 0. Without any values bincount
    # returns integers, hence the conversion.
    sums: Floats = np.bincount(index.ravel(), values.ravel(), size).astype(float, copy=False)
    return sums
