"""Ratings, ranks, seat effects and pairwise results of players, with intervals.

The model is Plackett-Luce (`plackett_luce`); the intervals are a bootstrap over deals.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit

from arena.core.errors import UsageError
from arena.evaluation.records import AS_ROLE, Estimate, GameResult
from arena.evaluation.statistics import wilson
from arena.evaluation.statistics.plackett_luce import (
    Floats,
    Ints,
    Outcomes,
    PlackettLuce,
    choices,
)

ELO_PER_UNIT = 400 / math.log(10)
"""Elo points per unit of strength: 400 points are odds of ten to one between two players."""
ELO_CENTRE = 1500.0
"""Rating of the mean of the players."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Result of two players in the games in which both sit, not in one team."""

    first: str
    second: str
    games: int
    ahead: Estimate
    """Share in which the first has the higher return; equal returns count half."""
    difference: Estimate
    """Rating of the first minus that of the second, from all games."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Results of a rating."""

    ratings: Mapping[str, Estimate]
    """Elo points by player, best first. Their mean is 1500. A player whose strength is almost
    unknown (it never won) widens all intervals around the mean: the difference of two players does
    not depend on it."""
    ranks: Mapping[str, Estimate]
    """Ranks by player, best first; 1 is best."""
    meetings: tuple[Meeting, ...]
    """Both orders of each pair."""


def rate(
    games: Sequence[GameResult],
    players: Sequence[str],
    draws: int = 500,
    seed: int = 0,
) -> Ratings:
    """Return ratings of the players from finished games, with intervals of 95 %.

    The intervals of ratings, differences and ranks are percentiles of a Bayesian
    bootstrap (Rubin 1981, Annals of Statistics 9): each draw gives each deal (the games with one
    seed) a weight from the exponential distribution, draws the weights of the prior too, and fits
    again. Each draw is centred by itself, so the interval of a rating is that of its distance from
    the mean of the players. Raises UsageError for a game with a player that is not among `players`.
    """
    outcomes = _outcomes(games, players)
    model = PlackettLuce(choices(outcomes), len(players))
    # All games with weight 1: the estimate itself. The draws only give its interval.
    best = model.fit(model.weights(np.ones(len(games))))
    # deal (games,): index of the deal of each game.
    seeds, deal = np.unique([game.slot.seed for game in games], return_inverse=True)
    rng = np.random.default_rng(seed)
    # (draws, parameters): strengths of the players, effects of the seats, then of sides and roles.
    drawn = np.empty((draws, len(best)))
    for i in range(draws):
        # All games of one deal have one weight: the deal is the unit that is drawn.
        weights = rng.standard_exponential(len(seeds))[deal]
        # A draw is close to the best fit, so Newton's method needs few steps from there.
        drawn[i] = model.fit(model.drawn_weights(weights, rng), best)
    played = np.isin(np.arange(len(players)), outcomes.players)
    # Mean of the players that have played: the strength of another is the prior alone. Without any
    # game, of all.
    centre = played | (not played.any())
    ratings, ranks = _in_elo(np.vstack([best, drawn])[:, : len(players)], centre)
    # Stable: players with equal ratings keep their given order.
    best_first = np.argsort(-ratings[0], kind="stable").tolist()
    # n of each player: the deals, not the games, in which it sits.
    deals = [len(set(deal[(outcomes.players == i).any(axis=1)])) for i in range(len(players))]
    return Ratings(
        {players[i]: _percentiles(ratings[:, i], deals[i]) for i in best_first},
        {players[i]: _percentiles(ranks[:, i], deals[i]) for i in best_first},
        tuple(_meetings(outcomes, deal, players, ratings, deals)),
    )


def _outcomes(games: Sequence[GameResult], players: Sequence[str]) -> Outcomes:
    index = {player: i for i, player in enumerate(players)}
    # (games, seats); games with fewer seats are padded with player -1.
    shape = (len(games), max((len(game.seats) for game in games), default=0))
    # The return 0 of an absent seat is never read: player -1 marks the seat.
    who, returns = np.full(shape, -1, np.int64), np.zeros(shape)
    teams = np.tile(np.arange(shape[1]), (len(games), 1))
    for row, game in enumerate(games):
        for seat, result in enumerate(game.seats):
            if result.player not in index:
                raise UsageError(
                    f"game {game.slot.number}: '{result.player}' is not among the rated players; "
                    f"name it among the players or leave the game out"
                )
            who[row, seat] = index[result.player]
            returns[row, seat] = result.returns
        # A team is numbered by its first seat.
        if game.teams:
            teams[row, : len(game.seats)] = [game.teams.index(team) for team in game.teams]
    return Outcomes(who, returns, teams, _sides(games, shape))


def _sides(games: Sequence[GameResult], shape: tuple[int, int]) -> Ints | None:
    """Return the numbers of side and role by seat, (games, seats, 2); None if all are alike."""
    numbers: dict[tuple[int, str], int] = {}
    sides = np.zeros((*shape, 2), np.int64)
    for row, game in enumerate(games):
        for seat, result in enumerate(game.seats):
            roles = sorted(name for name in result.measurements if name.startswith(AS_ROLE))
            side = str(game.teams[seat]) if game.teams else ""
            for kind, name in enumerate((side, "/".join(roles))):
                sides[row, seat, kind] = numbers.setdefault((kind, name), len(numbers))
    # One side and one role are the same for all seats, so they change no choice.
    return sides if len(numbers) > 2 else None


def _in_elo(strengths: Floats, centre: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return ratings and ranks of fits, a row for each: (fits, players).

    `centre` (players,) are the players whose mean is 1500.
    """
    # Strengths are logs of odds, in units of 400 / ln(10) Elo points.
    strengths = strengths * ELO_PER_UNIT
    # The likelihood depends on differences only: the centre is set to 1500 in each row.
    ratings = ELO_CENTRE + strengths - strengths[:, centre].mean(axis=1, keepdims=True)
    # rank = 1 + number of players with a higher rating. Rounded first, so that players with equal
    # records share a rank despite the error of the solver.
    rounded = np.round(ratings, 6)
    # [row, player, other] is 1 where the other is higher; the sum over others counts them.
    ranks = 1.0 + (rounded[:, None, :] > rounded[:, :, None]).sum(axis=2)
    return ratings, ranks


def _percentiles(values: Floats, n: int) -> Estimate:
    """Return the first value with the expanded percentile interval of all, which contains it.

    The plain percentiles, 2.5 % and 97.5 %, correspond to normal quantiles and a variance divided
    by n; the expanded ones (Hesterberg 2015, see `intervals`) have the width of Student's interval.
    """
    value = float(values[0])
    tail = 0.025
    if n > 1:
        tail = float(ndtr(math.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025)))
    # "inverted_cdf" returns values of the sample, never a mean of two, so ranks stay whole numbers.
    low, high = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
    return Estimate(value, min(value, float(low)), max(value, float(high)), n)


def _meetings(
    outcomes: Outcomes, deal: Ints, players: Sequence[str], ratings: Floats, deals: Sequence[int]
) -> list[Meeting]:
    """Return the pairwise results of each ordered pair.

    `ratings` are (fits, players); `deals` are those in which each player sits.
    """
    # By pair, each common game: its deal, and 1, 1/2 or 0 for the first player.
    met: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    teams = outcomes.teams
    assert teams is not None
    for row in range(len(outcomes.players)):
        seated, returns = outcomes.players[row], outcomes.returns[row]
        # (seats, seats): 1 if the row's seat has the higher return, 1/2 if both are equal.
        ahead = (1 + np.sign(returns[:, None] - returns[None, :])) / 2
        rivals = teams[row][:, None] != teams[row]
        # -1 marks absent seats. Both orders of a pair are entered; their shares add up to 1.
        for first in set(seated.tolist()) - {-1}:
            for second in set(seated.tolist()) - {-1, first}:
                # With several copies of a player at the table, all pairs of copies are averaged.
                pair = np.ix_(seated == first, seated == second)
                # Members of one team do not meet: they win and lose together.
                if rivals[pair].any():
                    share = float(ahead[pair][rivals[pair]].mean())
                    met[first, second].append((int(deal[row]), share))
    # A pair that never met has an empty list of comparisons.
    return [
        Meeting(
            one,
            other,
            len(met[i, j]),
            share_ahead(met[i, j]),
            # The smaller n is the cautious one.
            _difference(ratings[:, i] - ratings[:, j], min(deals[i], deals[j])),
        )
        for i, one in enumerate(players)
        for j, other in enumerate(players)
        if i != j
    ]


def _difference(values: Floats, n: int) -> Estimate:
    """Return the first value as an estimate of a difference, with its p-value.

    The p-value follows from the interval (Altman and Bland 2011, "How to obtain the P value from a
    confidence interval", BMJ 343): the distance from the value to the end towards 0 is
    t(n-1; 0.975) standard errors. The other end may be far away, because a player that never won
    may be arbitrarily weak, but it does not matter for 0.
    """
    estimate = _percentiles(values, n)
    near = estimate.low if estimate.value > 0 else estimate.high
    # Without a distance, or with one deal, nothing speaks against a difference of 0.
    if n < 2 or near == estimate.value:
        return replace(estimate, p=1.0)
    error = abs(estimate.value - near) / -float(stdtrit(n - 1, 0.025))
    return replace(estimate, p=2 * float(stdtr(n - 1, -abs(estimate.value) / error)))


def share_ahead(games: Sequence[tuple[int, float]]) -> Estimate:
    """Return the mean over deals, with Wilson's interval for the effective number of games.

    The effective number (Korn and Graubard 1998) is

        n_eff = n p (1 - p) / s^2,

    with n deals, mean p and observed variance s^2: draws vary less than wins and losses, so they
    count for more. One win and one loss are added to p and s^2, so that games without draws have
    n_eff = n, and a few draws in a row do not count as certainty.
    """
    # Games of one deal are not independent: their mean is one observation.
    by_deal = defaultdict(list)
    for deal, ahead in games:
        by_deal[deal].append(ahead)
    shares = np.array([sum(values) / len(values) for values in by_deal.values()])
    n = len(shares)
    # Two players that never met: the share may be anything.
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    padded = np.append(shares, [0.0, 1.0])  # one loss and one win
    mean = float(padded.mean())
    # The variance is positive, because `padded` has both a 0 and a 1.
    effective = n * mean * (1 - mean) / float(padded.var())
    # Only n_eff uses the padded mean; the share itself is the observed one.
    return wilson(float(shares.mean()), effective, n)
