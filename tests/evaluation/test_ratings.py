"""Ratings: choix's where it applies, the truth within its intervals, and nothing from nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import choix
import numpy as np
import pytest
from scipy.optimize import minimize

from arena.core.analysis import WeightedSum
from arena.evaluation.records import AS_ROLE, TEAM, GameResult, Interval, SeatResult, Slot
from arena.evaluation.statistics.plackett_luce import (
    Floats,
    Ints,
    Outcomes,
    PlackettLuce,
    Prior,
    choices,
)
from arena.evaluation.statistics.ratings import (
    ELO_PER_UNIT,
    Meeting,
    Ratings,
    rate,
)

NEARLY_NONE = Prior(games=1e-7, seat=1e-5)
"""For likelihoods alone, without seat effects."""


def game(number: int, returns: Sequence[tuple[str, float]], seed: int | None = None) -> GameResult:
    best = max(value for _, value in returns)
    return GameResult(
        Slot(number, number if seed is None else seed, tuple(name for name, _ in returns)),
        "terminated",
        "",
        turns=1,
        decisions=1,
        seconds=0.0,
        seats=tuple(SeatResult(name, value, value == best) for name, value in returns),
    )


def names(count: int) -> list[str]:
    return [f"p{i}" for i in range(count)]


def random_tables(
    rng: np.random.Generator, games: int, strengths: Floats, effects: Floats, winner_only: bool
) -> Outcomes:
    """Drawn from the model itself: the utilities plus Gumbel noise, in order."""
    seats = len(effects)
    who = np.array([rng.permutation(len(strengths))[:seats] for _ in range(games)])
    utilities = strengths[who] + effects + rng.gumbel(size=who.shape)
    returns = utilities.argsort(axis=1).argsort(axis=1).astype(float)
    if winner_only:
        returns = (returns == seats - 1).astype(float)
    return Outcomes(who, returns)


def played(outcomes: Outcomes) -> list[GameResult]:
    return [
        game(number, [(f"p{i}", float(value)) for i, value in zip(who, returns, strict=True)])
        for number, (who, returns) in enumerate(
            zip(outcomes.players, outcomes.returns, strict=True)
        )
    ]


def fitted(outcomes: Outcomes, num_players: int, prior: Prior = NEARLY_NONE) -> Floats:
    model = PlackettLuce(choices(outcomes), num_players, prior)
    found = model.fit(model.weights(np.ones(len(outcomes.players))))
    strengths: Floats = found[:num_players] - found[:num_players].mean()
    return strengths


def rankings(outcomes: Outcomes) -> list[tuple[int, ...]]:
    order: Ints = np.take_along_axis(outcomes.players, np.argsort(-outcomes.returns), axis=1)
    return [tuple(row) for row in order.tolist()]


def test_winners_are_rated_as_choix_does() -> None:
    rng = np.random.default_rng(1)
    outcomes = random_tables(rng, 400, rng.normal(size=7), np.zeros(4), winner_only=True)
    data = [(ranks[0], ranks[1:]) for ranks in rankings(outcomes)]
    assert fitted(outcomes, 7) == pytest.approx(choix.ilsr_top1(7, data), abs=1e-4)


def test_rankings_are_rated_as_choix_does() -> None:
    rng = np.random.default_rng(2)
    outcomes = random_tables(rng, 200, rng.normal(size=6), np.zeros(4), winner_only=False)
    reference = choix.opt_rankings(6, rankings(outcomes), alpha=1e-9, tol=1e-6)
    assert fitted(outcomes, 6) == pytest.approx(reference - reference.mean(), abs=1e-4)
    assert fitted(outcomes, 6) == pytest.approx(
        choix.ilsr_rankings(6, rankings(outcomes)), abs=1e-4
    )


def test_pairs_and_draws_are_rated_as_choix_does() -> None:
    """For choix a draw is a win of each, where all other games count twice."""
    rng = np.random.default_rng(3)
    outcomes = random_tables(rng, 300, rng.normal(size=5), np.zeros(2), winner_only=True)
    draws = rng.random(300) < 0.3
    outcomes.returns[draws] = 0.5
    pairs = [(ranks[0], ranks[1]) for ranks in rankings(outcomes)]
    twice = [(b, a) if draw else (a, b) for (a, b), draw in zip(pairs, draws, strict=True)]
    reference = choix.ilsr_pairwise(5, pairs + twice)
    assert fitted(outcomes, 5) == pytest.approx(reference, abs=1e-4)


def test_strengths_are_recovered_beside_effects_of_seats() -> None:
    strengths, effects = np.linspace(-1, 1, 6), np.array([-0.4, 0.0, 0.1, 0.3])
    rng = np.random.default_rng(5)
    outcomes = random_tables(rng, 4000, strengths, effects, winner_only=True)
    ratings = rate(played(outcomes), names(6), draws=50)
    values = np.array([ratings.ratings[name].value for name in names(6)])
    assert values.mean() == pytest.approx(1500)
    assert (values - 1500) / ELO_PER_UNIT == pytest.approx(strengths, abs=0.12)
    assert list(ratings.ratings) == list(ratings.ranks) == names(6)[::-1]  # Best first.
    assert [rank.value for rank in ratings.ranks.values()] == [1, 2, 3, 4, 5, 6]


def test_one_who_never_won_does_not_blur_differences() -> None:
    rng = np.random.default_rng(8)
    strengths = np.array([-9.0, -0.5, 0.0, 0.5, 0.6])
    outcomes = random_tables(rng, 300, strengths, np.zeros(3), winner_only=True)
    found = rate(played(outcomes), names(5), draws=100)
    assert found.ratings["p0"].half_width > 200
    difference = meeting(found, "p4", "p2").difference
    assert difference.half_width < 100 < found.ratings["p4"].half_width


def test_the_intervals_contain_the_truth() -> None:
    num_players, seats = 5, 3
    rng = np.random.default_rng(7)
    strengths = np.linspace(-1, 1, num_players)
    effects = np.linspace(-0.2, 0.2, seats)
    ratings_hit, ranks_hit, pairs_hit = [], [], []
    for repetition in range(60):
        outcomes = random_tables(rng, 60, strengths, effects, winner_only=True)
        ratings = rate(played(outcomes), names(num_players), draws=80, seed=repetition)
        for i, name in enumerate(names(num_players)):
            rating, rank = ratings.ratings[name], ratings.ranks[name]
            ratings_hit.append(rating.low <= 1500 + ELO_PER_UNIT * strengths[i] <= rating.high)
            ranks_hit.append(rank.low <= num_players - i <= rank.high)
        truth = dict(zip(names(num_players), ELO_PER_UNIT * strengths, strict=True))
        for pair in ratings.meetings:
            difference = truth[pair.first] - truth[pair.second]
            pairs_hit.append(pair.difference.low <= difference <= pair.difference.high)
    assert np.mean(pairs_hit) >= 0.9
    assert 0.88 <= np.mean(ratings_hit) < 1
    assert np.mean(ranks_hit) >= 0.93


def test_games_of_one_deal_are_one_observation() -> None:
    """Four copies of each game, on the same deal, say nothing that one did not say."""
    rng = np.random.default_rng(8)
    once = played(random_tables(rng, 50, np.zeros(3), np.zeros(3), winner_only=True))
    copies = [
        game(i, [(seat.player, seat.returns) for seat in result.seats], result.slot.seed)
        for result in once
        for i in range(4)
    ]
    single, repeated = rate(once, names(3)), rate(copies, names(3))
    for name in names(3):
        widths = repeated.ratings[name].half_width / single.ratings[name].half_width
        assert widths == pytest.approx(1, abs=0.15)  # As four deals each they would be half.
        assert repeated.ratings[name].n == 50


def test_the_order_of_players_and_of_games_does_not_matter() -> None:
    rng = np.random.default_rng(9)
    games = played(random_tables(rng, 100, rng.normal(size=5), np.zeros(3), winner_only=True))
    one = rate(games, names(5), draws=2)
    other = rate(games[::-1], names(5)[::-1], draws=2)
    for name in names(5):
        assert other.ratings[name].value == pytest.approx(one.ratings[name].value, abs=1e-3)
        assert other.ranks[name].value == one.ranks[name].value
    assert rate(games, names(5), draws=20) == rate(games, names(5), draws=20)


def test_who_never_won_and_who_never_played_have_finite_ratings_and_wide_intervals() -> None:
    games = [game(i, [("a", i % 2), ("b", 1 - i % 2), ("loser", 0)]) for i in range(40)]
    ratings = rate(games, ["a", "b", "loser"])
    spans = {name: each.half_width for name, each in ratings.ratings.items()}
    assert ratings.ratings["loser"].value < 1100
    assert spans["loser"] > 1.5 * spans["a"]
    assert (ratings.ranks["loser"].low, ratings.ranks["loser"].high) == (3, 3)
    ratings = rate(games, ["a", "b", "loser", "absent"])
    assert ratings.ratings["absent"].n == 0
    assert ratings.ratings["absent"].half_width > 400
    assert (ratings.ranks["absent"].low, ratings.ranks["absent"].high) == (1, 4)
    assert all(math.isfinite(each.low + each.high) for each in ratings.ratings.values())


def meeting(ratings: Ratings, first: str, second: str) -> Meeting:
    (found,) = [each for each in ratings.meetings if (each.first, each.second) == (first, second)]
    return found


def test_who_beats_whom() -> None:
    games = [
        game(0, [("a", 1), ("b", 0), ("c", 0)]),
        game(1, [("b", 1), ("a", 0), ("c", 0)]),
        game(2, [("a", 1), ("b", 0), ("a", 0)]),  # One copy ahead of b, the other equal to it.
        game(3, [("a", 0), ("c", 1)]),
    ]
    ratings = rate(games, ["a", "b", "c", "d"], draws=5)
    assert len(ratings.meetings) == 12
    assert meeting(ratings, "a", "b").ahead.value == pytest.approx((1 + 0 + 0.75) / 3)
    assert meeting(ratings, "b", "a").ahead.value == pytest.approx((0 + 1 + 0.25) / 3)
    assert meeting(ratings, "c", "a").ahead.value == pytest.approx((0 + 0.5 + 1) / 3)
    assert [meeting(ratings, "a", other).games for other in "bcd"] == [3, 3, 0]
    stored = json.loads(
        json.dumps(Interval.of(ratings.meetings[2].ahead).model_dump(), allow_nan=False)
    )
    assert stored == {"value": None, "low": 0.0, "high": 1.0, "n": 0}


def test_members_of_a_team_do_not_meet() -> None:
    played = game(0, [("a", 1), ("b", 1), ("c", 0), ("a", 0)])
    seats = [
        replace(seat, measurements={TEAM: WeightedSum(team)})
        for seat, team in zip(played.seats, (4, 4, 7, 7), strict=True)
    ]
    ratings = rate([replace(played, seats=tuple(seats))], ["a", "b", "c"], draws=5)
    # One copy of a is b's partner and the other one lost to b; likewise with c.
    assert meeting(ratings, "a", "b").ahead.value == 0
    assert meeting(ratings, "a", "c").ahead.value == 1
    seats[3] = replace(seats[3], player="c")
    ratings = rate([replace(played, seats=tuple(seats))], ["a", "b", "c"], draws=5)
    assert [meeting(ratings, "a", other).games for other in "bc"] == [0, 1]


def test_wins_and_losses_have_wilsons_interval_and_draws_a_narrower_one() -> None:
    wins = [game(i, [("a", float(i < 7)), ("b", float(i >= 7))]) for i in range(10)]
    (won, _) = rate(wins, ["a", "b"], draws=2).meetings
    # Wilson's interval for 7 of 10, as in R: binom::binom.confint(7, 10, methods = "wilson").
    assert (won.ahead.low, won.ahead.high) == pytest.approx((0.3967781, 0.8922087), abs=1e-5)
    draws = [game(i, [("a", 1), ("b", 1)]) for i in range(10)]
    (drawn, _) = rate(draws, ["a", "b"], draws=2).meetings
    assert drawn.ahead.value == 0.5
    assert 0.05 < drawn.ahead.half_width < 0.2


def team_posterior(outcomes: Outcomes, num_players: int, x: Floats) -> float:
    """The log posterior of games between two teams, written out game by game."""
    strengths, effects = x[:num_players], x[num_players:]
    prior = Prior()
    total = -float((effects**2).sum()) / (2 * prior.seat**2)
    for strength in strengths:
        ahead = 1 / (1 + math.exp(-strength))
        total += prior.games * (math.log(ahead) + math.log(1 - ahead))
    assert outcomes.teams is not None
    for who, returns, teams in zip(outcomes.players, outcomes.returns, outcomes.teams, strict=True):
        utility = {}
        for team in set(teams.tolist()):
            seats = np.flatnonzero(teams == team)
            utility[team] = float((strengths[who[seats]] + effects[seats]).mean())
        best = {int(teams[seat]) for seat in np.flatnonzero(returns == returns.max())}
        whole = math.log(sum(math.exp(u) for u in utility.values()))
        total += sum(utility[team] - whole for team in best) / len(best)
    return total


def test_teams_are_rated_by_the_mean_of_their_players() -> None:
    rng = np.random.default_rng(5)
    players = np.array([rng.permutation(6)[:5] for _ in range(40)])
    teams = np.array([rng.permutation([0, 0, 0, 1, 1]) for _ in range(40)])
    won = rng.random(40) < 0.5
    returns = np.where(teams == won[:, None], 1.0, 0.0)
    returns[:4] = 0.5  # Draws of both teams.
    first = np.array([[row.tolist().index(team) for team in row] for row in teams])
    outcomes = Outcomes(players, returns, first)
    model = PlackettLuce(choices(outcomes), 6)
    found = model.fit(model.weights(np.ones(40)))

    def loss(x: Floats) -> float:
        return -team_posterior(outcomes, 6, x)

    best = minimize(loss, np.zeros(11)).x
    np.testing.assert_allclose(found, best, atol=1e-3)


def uneven_games(
    rng: np.random.Generator, strengths: Floats, games: int, edge: float
) -> list[GameResult]:
    """Two evil seats against three good ones, drawn in each game; `edge` is that of evil."""
    found = []
    for number in range(games):
        who = rng.permutation(len(strengths))[:5]
        evil = rng.permutation([False, False, False, True, True])
        ahead = strengths[who[evil]].mean() - strengths[who[~evil]].mean() + edge
        evil_wins = rng.random() < 1 / (1 + math.exp(-ahead))
        played = game(
            number,
            [(f"p{i}", float(side == evil_wins)) for i, side in zip(who, evil, strict=True)],
        )
        seats = (
            replace(
                seat,
                measurements={
                    TEAM: WeightedSum(float(side)),
                    f"{AS_ROLE}{'evil' if side else 'good'}": WeightedSum(seat.returns),
                },
            )
            for seat, side in zip(played.seats, evil, strict=True)
        )
        found.append(replace(played, seats=tuple(seats)))
    return found


def test_the_effect_of_a_side_is_not_that_of_its_players() -> None:
    """Without it, strengths are about 0.6 of the true ones if evil wins four of five games."""
    rng, strengths = np.random.default_rng(3), np.linspace(-1.5, 1.5, 6)
    games = uneven_games(rng, strengths, 1500, edge=1.5)
    assert 0.75 < np.mean([game.seats[0].won == (game.teams[0] == 1) for game in games]) < 0.9
    found = rate(games, names(6), draws=30)
    for player, strength in zip(names(6), strengths, strict=True):
        assert abs(found.ratings[player].value - 1500 - ELO_PER_UNIT * strength) < 90
