"""Plackett-Luce model: the order in which players finish, with effects of seats, sides and roles.

The first place is a choice among all seats, the second a choice among the others, and so on (Luce
1959, Plackett 1975; with two players Bradley-Terry 1952). Each choice is a softmax over utilities:

    P(seat s is chosen) = exp(u[s]) / sum over the remaining seats r of exp(u[r]),
    u[s] = strength of the player in s + effect of seat s + effects of the side and the role in s.

Sides and roles (good and evil, Merlin) are drawn anew in each deal. Without their effects the model
would explain the results of an uneven game by chance and shrink all strengths, and its intervals
would be too narrow and in the wrong place.

The outcome of a game is the returns of its seats. If one player wins and the others lose equally,
only the first choice is known. If k seats share the best return, each counts as 1/k of the choice:
for k = 2 the half win that is usual with Bradley-Terry (Turner and Firth 2012, Journal of
Statistical Software 48(9)). If all remaining seats are tied, there is no further information,
except in a game in which all seats are tied from the start: that is a draw of all.

In a game of teams, the teams are chosen, and the utility of a team is the mean of its seats'
(Huang, Lin and Weng 2008, IEEE Transactions on Knowledge and Data Engineering 20(5), use the sum;
with the mean, a team is not better because it is larger).

choix and openskill do not support weights, ties, teams and seat effects together, hence this
solver; without ties, teams and seat effects it agrees with choix.
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
    side: float = 1.0
    """The same of the effects of sides and roles: 174 Elo points."""


@dataclass(frozen=True, slots=True)
class FitWeights:
    """Weights of the choices and of the prior in one fit."""

    choices: Floats
    """(choices,)"""
    wins: Floats
    """(players,) wins of the prior."""
    losses: Floats
    """(players,) losses of the prior."""
    centre: Floats
    """(effects,) mean of the prior of the effects."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Games as arrays (games, seats)."""

    players: Ints
    """Index of the player in each seat; -1 for seats that a game does not have."""
    returns: Floats
    """Equal within a team."""
    teams: Ints | None = None
    """Index of the first seat of each seat's team; None if each seat plays for itself."""
    sides: Ints | None = None
    """(games, seats, kinds): number of the side and of the role of each seat; None without any."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The distinct choices of all games. Arrays (choices, seats)."""

    players: Ints
    """Index of the player in each remaining seat; -1 elsewhere."""
    teams: Ints
    """Index of the first seat of each seat's team."""
    sides: Ints
    """(choices, seats, kinds)"""
    targets: Floats
    """Part of the choice that fell on each seat's team. Over teams, rows add up to 1."""
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
    alone = np.arange(here.shape[1])
    teams = np.broadcast_to(alone if outcomes.teams is None else outcomes.teams, here.shape)
    size = here.shape
    sides = np.zeros((*size, 0), np.int64) if outcomes.sides is None else outcomes.sides
    flat_sides = sides.reshape(size[0], size[1] * sides.shape[2])
    is_first = teams == alone  # One seat of each team, by which teams are counted.
    informative = here.any(axis=1)  # (games,) games whose present stage is a choice
    rows: list[Floats] = []
    games: list[Ints] = []
    # One pass per stage: first place, second place, … The first takes each game, also a draw of all
    # seats. `not rows` makes one pass without any game, which gives the arrays their shape.
    while informative.any() or not rows:
        # (games, seats): seats that share the best return of those not placed yet.
        best = here & (outcomes.returns == _highest(outcomes.returns, here))
        # k tied teams have 1/k each; shape (informative games, seats).
        tied = (best & is_first)[informative].sum(axis=1, keepdims=True)
        targets = best[informative] / tied
        # A row describes a choice completely: players of the remaining seats, teams, targets and
        # sides.
        players = np.where(here, outcomes.players, -1)
        parts = [players[informative], teams[informative], targets, flat_sides[informative]]
        rows.append(np.hstack(parts))
        games.append(np.flatnonzero(informative))
        # Tied seats leave together, since their order is unknown.
        here = here & ~best
        # Seats that are all tied give no further information.
        informative = (here & (outcomes.returns < _highest(outcomes.returns, here))).any(axis=1)
    # Games with few distinct line-ups have few distinct choices: a fit costs one row for each.
    kinds, kind = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    # The indices went through floats with the targets; small integers are exact there.
    *parts, by_side = np.hsplit(kinds, np.arange(1, 4) * size[1])
    seated, by_team = (each.astype(np.int64) for each in parts[:2])
    of_sides = by_side.astype(np.int64).reshape(len(kinds), size[1], sides.shape[2])
    return Choices(seated, by_team, of_sides, parts[2], kind.ravel(), np.concatenate(games))


def _highest(returns: Floats, here: NDArray[np.bool_]) -> Floats:
    """Return the highest return of the seats that are here, (games, 1); -inf if there is none."""
    # `initial` defines the maximum also for arrays without seats.
    highest: Floats = np.where(here, returns, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    return highest


class PlackettLuce:
    """The posterior of strengths and effects given choices, maximized by Newton's method.

    The parameters are one vector x: the players' strengths, the seats' effects, then those of sides
    and roles.
    """

    def __init__(self, choices: Choices, num_players: int, prior: Prior | None = None) -> None:
        self._prior = prior or Prior()
        self._choices = choices
        count, self.num_seats = choices.players.shape
        self._num_players = num_players
        self._here = choices.players >= 0
        # Absent seats point to player 0, a valid index; as p = y = 0 there, they add 0 to sums.
        self._player = np.where(self._here, choices.players, 0)
        sides, seat = int(choices.sides.max(initial=-1)) + 1, np.arange(self.num_seats)
        self._spread = np.repeat([self._prior.seat, self._prior.side], [self.num_seats, sides])
        parameters = num_players + len(self._spread)
        row = np.arange(count)[:, None]
        # The weight of a seat in the utility of its team: 1 / number of seats, 0 for absent seats.
        self._team = row * self.num_seats + choices.teams
        size = _sums(self._team, self._here, count * self.num_seats)
        self._share = self._here / np.maximum(size, 1)[self._team]
        # (terms, choices, seats): the parameters whose sum is the utility of a seat; `_cells` are
        # their flat indices of (choice, parameter).
        own = np.broadcast_to(num_players + seat, self._here.shape)
        by_side = num_players + self.num_seats + np.moveaxis(choices.sides, 2, 0)
        self._terms = of_seat = np.stack([self._player, own, *by_side])
        self._cells = row * parameters + of_seat
        # Pairs of seats of one team, a seat with itself included, and the flat indices of the
        # elements of the Hessian that they contribute to: (terms, terms, pairs).
        same = choices.teams[:, :, None] == choices.teams[:, None, :]
        same &= self._here[:, :, None] & self._here[:, None, :]
        self._pairs = np.nonzero(same)
        choice, one, other = self._pairs
        rows, columns = of_seat[:, choice, one], of_seat[:, choice, other]
        self._elements = rows[:, None] * parameters + columns[None]

    def weights(self, games: Floats) -> FitWeights:
        """Return the weights of a fit to these games with the prior itself."""
        # As many wins as losses against strength 0: the prior is symmetric about 0.
        added = np.full(self._num_players, self._prior.games)
        centre = np.zeros(len(self._spread))
        return FitWeights(self._choices.weights(games), added, added, centre)

    def drawn_weights(self, games: Floats, rng: np.random.Generator) -> FitWeights:
        """Return the weights of a fit to drawn games, with a draw of the prior.

        If games have exponential weights, wins and losses of the prior have gamma weights: with k
        wins in n games, the share of wins is then drawn from Beta(k + 0.5, n - k + 0.5). So fits
        have the right spread also for a player that never won or has not played.
        """
        # The 1e-9 keeps a pull towards 0 if the draw is 0; without it a strength could be infinite.
        added = rng.gamma(self._prior.games, size=(2, self._num_players)) + 1e-9
        # Moving the centre draws from a Gaussian prior: without data, the fit is the centre itself.
        centre = rng.normal(0.0, self._spread)
        return FitWeights(self._choices.weights(games), added[0], added[1], centre)

    def fit(self, weights: FitWeights, start: Floats | None = None) -> Floats:
        """Return the maximum a posteriori; `start` is the first point of the search."""
        # All equal at first. Fits to drawn games start at the fit to all games, close to their end.
        x = np.zeros(self._num_players + len(self._spread)) if start is None else start
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
        """Return the probability of the team of each seat, (choices, seats); 0 for absent seats."""
        utility = x[self._terms].sum(axis=0) * self._share
        # By the first seat of each team; the other seats' entries are 0 and must not count.
        by_team = _sums(self._team, utility, utility.size)
        is_team = _sums(self._team, self._here, utility.size) > 0
        worth = (np.exp(by_team) * is_team).reshape(utility.shape)
        chances: Floats = (worth / worth.sum(axis=1, keepdims=True)).ravel()[self._team]
        return chances * self._here

    def _newton_step(self, x: Floats, weights: FitWeights) -> Floats:
        """Return -H^-1 g for gradient g and Hessian H of the negative log posterior.

        For one choice with probabilities p, targets y and weight w, by utility of a team:
        g = w (p - y),  H = w (diag(p) - p p'). The utility of a team is the sum of strengths and
        effects of its seats with the weights `_share`.
        """
        n = self._num_players
        p = self._chances(x)
        # (choices, seats): the gradient w (p - y), by utility of a seat.
        slope = weights.choices[:, None] * (p - self._choices.targets) * self._share
        # A game of the prior is won with probability 1 / (1 + exp(-strength)).
        ahead = 1 / (1 + np.exp(-x[:n]))
        # The prior's -wins log(a) - losses log(1 - a) with a = ahead has the gradient
        # losses a - wins (1 - a), because da/dstrength = a (1 - a).
        by_strength = weights.losses * ahead - weights.wins * (1 - ahead)
        # A utility is a sum of parameters: each parameter's gradient is the sum of the slopes of
        # its utilities. The Gaussian prior of effects adds (effect - centre) / sd^2.
        gradient = _sums(self._terms, np.broadcast_to(slope, self._terms.shape), len(x))
        gradient[:n] += by_strength
        gradient[n:] += (x[n:] - weights.centre) / self._spread**2
        hessian = self._hessian(p, weights)
        # The prior: a logistic game for each player, a Gaussian for each effect.
        curvature = (weights.wins + weights.losses) * ahead * (1 - ahead)
        diagonal = np.concatenate([curvature, self._spread**-2])
        hessian[np.diag_indices_from(hessian)] += diagonal
        # The prior makes H positive definite, also for players and seats without games.
        step: Floats = np.linalg.solve(hessian, -gradient).astype(np.float64)
        return step

    def _hessian(self, p: Floats, weights: FitWeights) -> Floats:
        """Return the Hessian of the choices, (parameters, parameters)."""
        size = self._num_players + len(self._spread)
        choice, one, other = self._pairs
        # sum w diag(p): for each pair of seats of a team w p share share', in terms^2 elements.
        shared = weights.choices[choice] * p[choice, one]
        shared *= self._share[choice, one] * self._share[choice, other]
        elements = np.broadcast_to(shared, self._elements.shape)
        within = _sums(self._elements, elements, size * size).reshape(size, size)
        # Then - sum w p p' = -A'A, where A (choices, parameters) holds sqrt(w) p by parameter.
        rooted = np.sqrt(weights.choices)[:, None] * p * self._share
        by_parameter = _sums(self._cells, np.broadcast_to(rooted, self._terms.shape), len(p) * size)
        by_parameter = by_parameter.reshape(len(p), size)
        hessian: Floats = within - by_parameter.T @ by_parameter
        return hessian


def _sums(index: Ints, values: NDArray[np.float64 | np.bool_], size: int) -> Floats:
    """Return the sum of the values at each index below `size`, (size,)."""
    # Third argument: the least length, so indices without values get 0. Without any values bincount
    # returns integers, hence the conversion.
    sums: Floats = np.bincount(index.ravel(), values.ravel(), size).astype(float, copy=False)
    return sums
