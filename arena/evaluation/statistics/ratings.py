"""How strong players are: ratings, ranks, seat effects and who beats whom, and how sure it is.

The model is Plackett-Luce (`plackett_luce`), the intervals are a bootstrap over deals.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arena.core.errors import UsageError
from arena.core.json import Json
from arena.evaluation.records import Estimate, GameResult
from arena.evaluation.statistics.plackett_luce import (
    Floats,
    Ints,
    Outcomes,
    PlackettLuce,
    Prior,
    choices,
)

ELO_PER_UNIT = 400 / math.log(10)
"""Elo points per unit of strength: 400 points are odds of ten to one between two players."""
ELO_MEDIAN = 1500.0


@dataclass(frozen=True, slots=True)
class Meeting:
    """What happened when two players sat at one table."""

    first: str
    second: str
    games: int
    """In which both sit."""
    ahead: Estimate
    """The share in which the first has the higher return; equal returns are half."""

    def to_json(self) -> dict[str, Json]:
        return {
            "first": self.first,
            "second": self.second,
            "games": self.games,
            "ahead": self.ahead.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Ratings:
    """How players compare."""

    ratings: Mapping[str, Estimate]
    """Elo points by player, best first; their median is 1500, so that one whose strength is hardly
    known (it never won, or has not played) does not blur the others'."""
    ranks: Mapping[str, Estimate]
    """By player, best first; 1 is best."""
    seats: tuple[Estimate, ...]
    """What a seat is worth in Elo points; they add up to 0."""
    beats: tuple[Meeting, ...]
    """Both orders of each pair."""
    deals: int
    draws: int
    """Of the bootstrap."""


def rate(
    games: Sequence[GameResult],
    players: Sequence[str],
    draws: int = 500,
    seed: int = 0,
    prior: Prior | None = None,
) -> Ratings:
    """Ratings of the players from finished games, with intervals of 95 %.

    The intervals of ratings, ranks and seat effects are percentiles of a Bayesian bootstrap (Rubin
    1981, Annals of Statistics 9): each draw gives every deal (the games with one seed) a weight
    from the exponential distribution, draws the weight of the prior too, and fits anew.
    Raises UsageError for a game with somebody who is not among the players.
    """
    outcomes = _outcomes(games, players)
    told = choices(outcomes)
    model = PlackettLuce(told, len(players), prior)
    best = model.fit(model.weights(np.ones(len(games))))
    seeds, deal = np.unique([game.slot.seed for game in games], return_inverse=True)
    rng = np.random.default_rng(seed)
    drawn = np.empty((draws, len(best)))
    for i in range(draws):
        weights = rng.standard_exponential(len(seeds))[deal]
        drawn[i] = model.fit(model.drawn_weights(weights, rng), best)
    summary = _Summary(len(players), best, drawn)
    deals = [len(set(deal[(outcomes.players == i).any(axis=1)])) for i in range(len(players))]
    return Ratings(
        {players[i]: summary.rating(i, deals[i]) for i in summary.best_first},
        {players[i]: summary.rank(i, deals[i]) for i in summary.best_first},
        tuple(summary.seat(i, len(seeds)) for i in range(outcomes.players.shape[1])),
        tuple(_meetings(outcomes, deal, players)),
        len(seeds),
        draws,
    )


def _outcomes(games: Sequence[GameResult], players: Sequence[str]) -> Outcomes:
    index = {player: i for i, player in enumerate(players)}
    shape = (len(games), max((len(game.seats) for game in games), default=0))
    who, returns = np.full(shape, -1, np.int64), np.zeros(shape)
    for row, game in enumerate(games):
        for seat, result in enumerate(game.seats):
            if result.player not in index:
                raise UsageError(
                    f"game {game.slot.number} seats '{result.player}', who is not to be rated; "
                    f"name it among the players or leave the game out"
                )
            who[row, seat] = index[result.player]
            returns[row, seat] = result.returns
    return Outcomes(who, returns)


class _Summary:
    """Estimates from the best parameters and the bootstrap's, in Elo points."""

    def __init__(self, num_players: int, best: Floats, drawn: Floats) -> None:
        both = np.concatenate([best[None], drawn]) * ELO_PER_UNIT
        strengths, effects = np.split(both, [num_players], axis=1)
        # Only differences are known.
        self._ratings = ELO_MEDIAN + strengths - np.median(strengths, axis=1, keepdims=True)
        self._seats = effects - (effects.mean(axis=1, keepdims=True) if effects.size else 0.0)
        # Rounded, so that players with the same record share a rank.
        rounded = np.round(self._ratings, 6)
        self._ranks = 1.0 + (rounded[:, None, :] > rounded[:, :, None]).sum(axis=2)

    @property
    def best_first(self) -> list[int]:
        order: list[int] = np.argsort(-self._ratings[0], kind="stable").tolist()
        return order

    def rating(self, player: int, n: int) -> Estimate:
        return _percentiles(self._ratings[:, player], n)

    def rank(self, player: int, n: int) -> Estimate:
        return _percentiles(self._ranks[:, player], n)

    def seat(self, seat: int, n: int) -> Estimate:
        return _percentiles(self._seats[:, seat], n)


def _percentiles(values: Floats, n: int) -> Estimate:
    """The first value is the estimate, the others are the draws; it is within its interval."""
    value = float(values[0])
    low, high = np.quantile(values, [0.025, 0.975], method="inverted_cdf")
    return Estimate(value, min(value, float(low)), max(value, float(high)), n)


def _meetings(outcomes: Outcomes, deal: Ints, players: Sequence[str]) -> list[Meeting]:
    """Who finished ahead of whom, for each ordered pair of different players."""
    met: dict[tuple[int, int], list[_Comparison]] = defaultdict(list)
    for row in range(len(outcomes.players)):
        who, returns = outcomes.players[row], outcomes.returns[row]
        # With several copies of a player at the table, each pair of copies is compared.
        ahead = (1 + np.sign(returns[:, None] - returns[None, :])) / 2
        for first in set(who.tolist()) - {-1}:
            for second in set(who.tolist()) - {-1, first}:
                share = float(ahead[np.ix_(who == first, who == second)].mean())
                met[first, second].append(_Comparison(int(deal[row]), share))
    return [
        Meeting(one, other, len(met[i, j]), _share_ahead(met[i, j]))
        for i, one in enumerate(players)
        for j, other in enumerate(players)
        if i != j
    ]


@dataclass(frozen=True, slots=True)
class _Comparison:
    deal: int
    ahead: float


def _share_ahead(comparisons: Sequence[_Comparison]) -> Estimate:
    """The mean over deals, with Wilson's interval for the effective number of games.

    That number is the count of deals times the variance of a win-or-lose game with this mean,
    over the variance that is seen (Korn and Graubard 1998): draws vary less, so they count for
    more. One win and one loss are added to both variances, so that win-or-lose games count as
    what they are, and a few draws in a row do not count as certainty.
    """
    by_deal = defaultdict(list)
    for each in comparisons:
        by_deal[each.deal].append(each.ahead)
    shares = np.array([np.mean(each) for each in by_deal.values()])
    n = len(shares)
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    padded = np.append(shares, [0.0, 1.0])
    mean = float(padded.mean())
    effective = n * mean * (1 - mean) / float(padded.var())
    return _wilson(float(shares.mean()), effective, n)


def _wilson(share: float, effective: float, n: int) -> Estimate:
    """Wilson's score interval (1927) of 95 %."""
    z2 = 1.959964**2 / effective
    middle = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
    return Estimate(share, max(0.0, middle - half), min(1.0, middle + half), n)
