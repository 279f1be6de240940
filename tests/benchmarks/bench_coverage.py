"""Coverage of the 95 % intervals: share of repetitions in which they contain the truth.

Real bots play a pool of games once, the same seats of the same deals by a detective and by a
novice, among novices. The means of the pool are the truth; repetitions are games drawn from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
import pytest
from kuhn_bots import KUHN, Bluffer, Careful, exact_value, kuhn_bots
from log_capital import log_capital
from numpy.typing import NDArray
from slot_games import play_by_bots
from student import student_mean
from test_ratings import uneven_games

from arena.core.outcome import ReturnScale
from arena.episodes.executors import available_cores
from arena.episodes.match import Match
from arena.evaluation.paired import compare
from arena.evaluation.records import LUCK, Estimate, GameResult, Role, SeatResult, Slot
from arena.evaluation.schedule import ExperimentSetup, evaluation_schedule
from arena.evaluation.statistics import (
    clustered_mean,
    rate,
    worst_cases,
)
from arena.evaluation.statistics.confidence_sequence import (
    ConfidenceSequence,
    controlled_mean,
)
from arena.evaluation.statistics.ratings import ELO_PER_UNIT
from arena.evaluation.statistics.ratings import rate as rate_players
from arena.evaluation.summary import Sample
from arena.plugins.loader import make_game
from games.cluedo.game import Cluedo

Floats = NDArray[np.float64]

DEALS = 1500
REPETITIONS = 3000
"""So that the error of a share is 0.4 %, and Wilson's 96.1 % of 60 games at 1/3 are not 97 %."""
SIZES = (60, 120, 200)
LONGEST = 600
"""Games of a confidence sequence, if it does not stop before."""
NARROW = 0.1
"""Half width at which it stops."""
PLAYERS = 3


@dataclass(frozen=True, slots=True)
class Pool:
    """What came of each deal."""

    wins: Floats
    """(deals,) of the detective"""
    novice_wins: Floats
    """(deals,) of the novice in the same seat"""
    luck: Floats
    """(deals, 2) in the detective's game: by its own draws, and by the others'"""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of one kind of interval at one number of games."""

    name: str
    games: float
    share: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.name:24} {self.games:6.0f} games  {self.share:6.1%}  ±{self.half_width:.3f}"


def slots(deals: int) -> Iterator[Slot]:
    """Two games a deal; the seat goes round."""
    roles: tuple[Role, Role] = ("player", "baseline")
    for seed in range(deals):
        seat = seed % PLAYERS
        for number, role in enumerate(roles):
            specs = ["bot:novice"] * PLAYERS
            specs[seat] = "bot:detective" if role == "player" else "bot:novice"
            yield Slot(2 * seed + number, seed, tuple(specs), role, seat)


def oracle_slots(deals: int) -> Iterator[Slot]:
    """An oracle, which states no policy, among detectives, which do."""
    for seed in range(deals):
        specs = ["bot:detective"] * PLAYERS
        specs[seed % PLAYERS] = "bot:oracle"
        yield Slot(seed, seed, tuple(specs), "player", seed % PLAYERS)


def play_oracles(deals: int) -> Pool:
    with ProcessPoolExecutor(available_cores()) as processes:
        results = list(processes.map(play_slot, oracle_slots(deals), chunksize=20))
    wins = np.array([won(result) for result in results])
    return Pool(wins, wins, np.array([luck(result) for result in results]))


def play_slot(slot: Slot) -> GameResult:
    """No game is scored by the exact posterior, which takes longer than playing."""
    game = Cluedo(variant="cards", players=PLAYERS)
    return play_by_bots(ExperimentSetup(Match(game), scored=frozenset()), slot)


def play_pool(deals: int) -> Pool:
    with ProcessPoolExecutor(available_cores()) as processes:
        results = list(processes.map(play_slot, slots(deals), chunksize=20))
    better, worse = results[::2], results[1::2]
    return Pool(
        np.array([won(result) for result in better]),
        np.array([won(result) for result in worse]),
        np.array([luck(result) for result in better]),
    )


def won(result: GameResult) -> float:
    assert result.slot.seat is not None
    return float(result.seats[result.slot.seat].won)


def luck(result: GameResult) -> list[float]:
    assert result.slot.seat is not None
    measurements = result.seats[result.slot.seat].measurements
    return [measurements[name].total if name in measurements else 0.0 for name in LUCK]


def centred(lucks: Floats) -> Floats:
    """Return luck (deals, 2) with mean 0 in the pool.

    Repetitions are drawn from the pool, so it is the population: there the mean must be 0, as it is
    over all games.
    """
    shifted: Floats = lucks - lucks.mean(axis=0)
    return shifted


def without_luck(wins: Floats, lucks: Floats) -> Estimate:
    """The interval without luck; without one, the report has that of the plain rate."""
    found = controlled_mean(wins, lucks, (0, 1))
    return found.estimate if found else rate(int(wins.sum()), len(wins))


def measured(
    name: str,
    pool: Pool,
    truth: float,
    games: int,
    estimate: Callable[[NDArray[np.intp]], Estimate],
) -> Coverage:
    """How often the interval of so many games that are drawn from the pool contains the truth."""
    rng = np.random.default_rng(games)
    found = [estimate(rng.integers(len(pool.wins), size=games)) for _ in range(REPETITIONS)]
    share = sum(each.low <= truth <= each.high for each in found) / REPETITIONS
    return Coverage(name, games, share, float(np.mean([each.half_width for each in found])))


def fixed(pool: Pool, games: int) -> Iterator[Coverage]:
    """The intervals of a number of games that is fixed before."""
    wins, differences, lucks = pool.wins, pool.wins - pool.novice_wins, centred(pool.luck)
    cover = partial(measured, pool=pool, games=games)
    yield cover(
        "plain (detective)",
        truth=float(wins.mean()),
        estimate=lambda drawn: rate(int(wins[drawn].sum()), games),
    )
    yield cover(
        "plain (novice)",
        truth=float(pool.novice_wins.mean()),
        estimate=lambda drawn: rate(int(pool.novice_wins[drawn].sum()), games),
    )
    yield cover(
        "paired",
        truth=float(differences.mean()),
        estimate=lambda drawn: clustered_mean(
            differences[drawn], np.arange(games), draws=1000, bounds=(-1, 1)
        ),
    )
    yield cover(
        "luck out (detective)",
        truth=float(wins.mean()),
        estimate=lambda drawn: without_luck(wins[drawn], lucks[drawn]),
    )
    yield cover(
        "luck of others out",
        truth=float(wins.mean()),
        estimate=lambda drawn: without_luck(wins[drawn], lucks[drawn, 1:]),
    )


@cache
def sequential_interval(games: int, wins: int) -> Estimate:
    sequence = ConfidenceSequence(0, 1)
    for number in range(games):
        sequence.add(float(number < wins))
    return sequence.interval()


def sequential(wins: Floats) -> Iterator[Coverage]:
    """A look every ten games until the interval is narrow, and all looks at once."""
    rng, truth = np.random.default_rng(0), float(wins.mean())
    stopped, always = [], 0
    for _ in range(REPETITIONS):
        drawn = wins[rng.integers(len(wins), size=LONGEST)]
        always += bool((log_capital(drawn, truth, 0, 1) < math.log(20)).all())
        sums = drawn.cumsum()
        looks = (sequential_interval(n, int(sums[n - 1])) for n in range(10, LONGEST + 1, 10))
        stopped.append(next(look for look in looks if look.half_width <= NARROW))
    games = float(np.mean([look.n for look in stopped]))
    share = sum(look.low <= truth <= look.high for look in stopped) / REPETITIONS
    yield Coverage("sequential, when it stops", games, share, NARROW)
    half_width = sequential_interval(LONGEST, round(truth * LONGEST)).half_width
    yield Coverage("sequential, at all times", LONGEST, always / REPETITIONS, half_width)


KUHN_DEALS = 3000
"""Pairs of games of Kuhn poker in the pool."""


@cache
def play_kuhn(deals: int) -> tuple[Floats, Floats]:
    """Return chips of the bluffer minus those of the careful player, (deals,), and their luck."""
    setup, seed = ExperimentSetup(Match(KUHN)), 1
    with kuhn_bots():
        slots = evaluation_schedule(2, "bot:bluffer", ["bot:random"], "bot:careful", deals, seed)
        results = [play_by_bots(setup, slot) for slot in slots]
    chips = np.array([result.seats[result.slot.seat or 0].returns for result in results])
    lucks = np.array([luck(result) for result in results])
    return chips[::2] - chips[1::2], lucks[::2] - lucks[1::2]


def covered_without_luck(pool: Floats, lucks: Floats, games: int) -> Coverage:
    """Of paired differences in chips, with luck taken out."""
    truth, rng, found = float(pool.mean()), np.random.default_rng(games), list[Estimate]()
    lucks = centred(lucks)
    for _ in range(REPETITIONS):
        drawn = rng.integers(len(pool), size=games)
        adjusted = controlled_mean(pool[drawn], lucks[drawn], KUHN.return_scale.difference)
        assert adjusted
        found.append(adjusted.estimate)
    share = sum(each.low <= truth <= each.high for each in found) / REPETITIONS
    half_width = float(np.mean([each.half_width for each in found]))
    return Coverage("chips, luck out (Kuhn)", games, share, half_width)


def covered(name: str, pool: Floats, games: int, bounds: tuple[float, float]) -> Coverage:
    """Of paired differences that are drawn from the pool."""
    truth, rng = float(pool.mean()), np.random.default_rng(games)
    found = [
        clustered_mean(drawn, np.arange(games), draws=1000, bounds=bounds)
        for drawn in rng.choice(pool, size=(REPETITIONS, games))
    ]
    share = sum(each.low <= truth <= each.high for each in found) / REPETITIONS
    return Coverage(name, games, share, float(np.mean([each.half_width for each in found])))


def at_all_times(name: str, pool: Floats, bounds: tuple[float, float]) -> Coverage:
    """Of the confidence sequence of differences, at all looks at once."""
    rng, truth, always = np.random.default_rng(3), float(pool.mean()), 0
    for _ in range(REPETITIONS):
        drawn = rng.choice(pool, size=LONGEST)
        always += bool((log_capital(drawn, truth, *bounds) < math.log(20)).all())
    sequence = ConfidenceSequence(*bounds)
    for value in rng.choice(pool, size=LONGEST):
        sequence.add(float(value))
    return Coverage(name, LONGEST, always / REPETITIONS, sequence.interval().half_width)


def test_verdicts_on_returns_are_covered(capsys: pytest.CaptureFixture[str]) -> None:
    """Kuhn poker in chips, and tic-tac-toe with 30 % wins and 70 % draws against 40 % wins."""
    kuhn, _ = play_kuhn(KUHN_DEALS)
    rng = np.random.default_rng(5)
    tic = rng.choice([1.0, 0.0], size=20_000, p=[0.3, 0.7]) - rng.choice(
        [1.0, -1.0], size=20_000, p=[0.4, 0.6]
    )
    chips, score = KUHN.return_scale.difference, (-2.0, 2.0)
    fixed_size = [
        *(covered("chips, paired (Kuhn)", kuhn, games, chips) for games in SIZES),
        *(covered("score, paired (tic)", tic, games, score) for games in SIZES),
    ]
    anytime = [
        at_all_times("chips, at all times", kuhn, chips),
        at_all_times("score, at all times", tic, score),
    ]
    exact = exact_value(Bluffer.bets)[0] - exact_value(Careful.bets)[0]
    with capsys.disabled():
        print(f"\n{KUHN_DEALS} deals of Kuhn poker: {kuhn.mean():+.3f} chips, exact {exact:+.3f}")
        print(*fixed_size, *anytime, sep="\n")
    assert all(0.93 <= coverage.share <= 0.97 for coverage in fixed_size)
    assert abs(kuhn.mean() - exact) < 4 * kuhn.std() / math.sqrt(KUHN_DEALS)
    error = math.sqrt(0.95 * 0.05 / REPETITIONS)
    assert all(coverage.share >= 0.95 - 2 * error for coverage in anytime)


def test_chips_without_luck_are_covered(capsys: pytest.CaptureFixture[str]) -> None:
    """The half widths are to be compared with those of "chips, paired (Kuhn)"."""
    kuhn, lucks = play_kuhn(KUHN_DEALS)
    found = [covered_without_luck(kuhn, lucks, games) for games in SIZES]
    with capsys.disabled():
        print("", *found, sep="\n")
    assert all(0.93 <= coverage.share <= 0.97 for coverage in found)


RATED, RATING_GAMES, RATING_REPETITIONS = 5, 60, 200


def test_ratings_around_the_mean_and_an_anchor_are_covered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tables of three, drawn from the model; the first player is the anchor."""
    rng, strengths = np.random.default_rng(11), np.linspace(-1, 1, RATED)
    names = [f"p{i}" for i in range(RATED)]
    truth = dict(zip(names, ELO_PER_UNIT * strengths, strict=True))
    hits: dict[str, list[bool]] = {"rating, mean": [], "rating, anchor": [], "difference": []}
    widths: dict[str, list[float]] = {name: [] for name in hits}

    def count(name: str, found: Estimate, true: float) -> None:
        hits[name].append(found.low <= true <= found.high)
        widths[name].append(found.half_width)

    def repeat() -> None:
        for seed in range(RATING_REPETITIONS):
            who = np.array([rng.permutation(RATED)[:3] for _ in range(RATING_GAMES)])
            winners = (strengths[who] + rng.gumbel(size=who.shape)).argmax(axis=1)
            games = [
                game_of([names[i] for i in row], int(winner), number)
                for number, (row, winner) in enumerate(zip(who, winners, strict=True))
            ]
            ratings = rate_players(games, names, draws=200, seed=seed)
            for name in names:
                count("rating, mean", ratings.ratings[name], 1500 + truth[name])
            for pair in ratings.meetings:
                true = truth[pair.first] - truth[pair.second]
                count("difference", pair.difference, true)
                if pair.second == names[0]:
                    # The rating around an anchor is 1500 plus this difference.
                    count("rating, anchor", pair.difference, true)

    repeat()
    with capsys.disabled():
        print(f"\n{RATING_REPETITIONS} tournaments of {RATING_GAMES} games, half widths in Elo")
        for name, found in hits.items():
            print(f"{name:24} {np.mean(found):6.1%}  ±{np.mean(widths[name]):.0f}")
    assert all(0.92 <= np.mean(found) <= 0.98 for found in hits.values())


UNEVEN_GAMES, UNEVEN_REPETITIONS = 150, 60


def test_ratings_of_uneven_teams_are_covered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evil wins four of five games: differences of ratings with the effect of the side, without."""
    strengths = np.linspace(-1.5, 1.5, 6)
    names = [f"p{i}" for i in range(6)]

    def shares() -> float:
        rng, hits = np.random.default_rng(1), list[bool]()
        for seed in range(UNEVEN_REPETITIONS):
            games = uneven_games(rng, strengths, UNEVEN_GAMES, 1.5)
            for pair in rate_players(games, names, draws=100, seed=seed).meetings:
                true = strengths[names.index(pair.first)] - strengths[names.index(pair.second)]
                hits.append(pair.difference.low <= ELO_PER_UNIT * true <= pair.difference.high)
        return float(np.mean(hits))

    with_sides = shares()
    monkeypatch.setattr("arena.evaluation.statistics.ratings._sides", lambda games, shape: None)
    without = shares()
    with capsys.disabled():
        print(f"\nuneven teams: {with_sides:.1%} covered, {without:.1%} without sides")
    assert 0.91 <= with_sides <= 0.98 and without < 0.9


def game_of(players: list[str], winner: int, number: int) -> GameResult:
    seats = tuple(
        SeatResult(player, float(seat == winner), seat == winner)
        for seat, player in enumerate(players)
    )
    slot = Slot(number, number, tuple(players))
    return GameResult(slot, "terminated", "", 1, 1, 0.0, seats)


def test_bounds_of_truncated_games_hold_the_finished_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Games are cut off the sooner the better for the baseline, which is no random choice."""
    rng, inside, fooled, verdicts = np.random.default_rng(6), 0, 0, 0
    scale = ReturnScale("score", "", -1.0, 1.0)
    for _ in range(REPETITIONS // 3):
        own = rng.choice([1.0, -1.0], size=120, p=[0.35, 0.65])
        other = rng.choice([1.0, -1.0], size=120, p=[0.45, 0.55])
        cut = rng.random(120) < np.where(own < 0, 0.9, 0.6)
        first, second = Sample("a"), Sample("z")
        for deal in range(120):
            status: Literal["terminated", "truncated"] = "truncated" if cut[deal] else "terminated"
            for sample, value in ((first, own[deal]), (second, other[deal])):
                seats = (SeatResult("", 0.0 if cut[deal] else value, value > 0),)
                slot = Slot(deal, deal, ("",))
                sample.add(GameResult(slot, status, "", 1, 1, 0.0, seats), 0, scale)
        paired = compare(make_game("tictactoe"), first, second)
        finished, bounds = float((own - other).mean()), paired.if_finished
        assert bounds.low is not None and bounds.high is not None
        inside += bounds.low <= finished <= bounds.high
        if paired.difference.excludes_zero and (paired.difference.value or 0) > 0:
            verdicts += 1
            fooled += not bounds.excludes_zero
    with capsys.disabled():
        print(
            f"\ntruncation: bounds hold the finished result in {inside} of {REPETITIONS // 3}; "
            f"{verdicts} wrong verdicts, {fooled} of them with a warning"
        )
    assert inside == REPETITIONS // 3 and fooled == verdicts


def test_intervals_cover_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    pool = play_pool(DEALS)
    fixed_size = [coverage for games in SIZES for coverage in fixed(pool, games)]
    anytime = [*sequential(pool.wins), *sequential(pool.novice_wins)]
    sample = controlled_mean(pool.wins, pool.luck)
    assert sample
    with capsys.disabled():
        print(
            f"\n{DEALS} deals: detective {pool.wins.mean():.1%}, novice "
            f"{pool.novice_wins.mean():.1%}; {REPETITIONS} repetitions"
        )
        print(*fixed_size, *anytime, sep="\n")
        means = pool.luck.mean(axis=0) / (pool.luck.std(axis=0) / math.sqrt(DEALS))
        print(f"luck: variance ratio {sample.variance_ratio:.2f}, means / errors {means.round(1)}")
    assert all(0.93 <= each.share <= 0.97 for each in fixed_size)
    assert (abs(means) < 4).all()
    error = math.sqrt(0.95 * 0.05 / REPETITIONS)
    assert all(coverage.share >= 0.95 - 2 * error for coverage in anytime)


def rare_wins(chance: float, games: int) -> Coverage:
    """Wins by luck and skill, both normal, with luck taken out."""
    rng, found = np.random.default_rng(games), []
    limit = np.quantile(rng.standard_normal(10**6), 1 - chance)
    for _ in range(REPETITIONS):
        lucks = rng.standard_normal((games, 2)) / math.sqrt(2)
        score = 0.6 * (lucks[:, 0] - lucks[:, 1]) + 0.8 * rng.standard_normal(games)
        found.append(without_luck(np.asarray(score > limit, np.float64), lucks))
    share = sum(each.low <= chance <= each.high for each in found) / REPETITIONS
    half_width = float(np.mean([each.half_width for each in found]))
    return Coverage(f"luck out, {chance:.0%} wins", games, share, half_width)


def ten_looks() -> Iterator[Coverage]:
    """Equal players; the share of runs in which none of ten looks shows a difference."""
    rng, true = np.random.default_rng(0), np.zeros(2)
    for _ in range(REPETITIONS):
        sequence = ConfidenceSequence(-1, 1)
        differences = rng.choice([-1.0, 0.0, 1.0], 600, p=[0.25, 0.5, 0.25])
        fixed, looks = [], []
        for n in range(60, 601, 60):
            for difference in differences[n - 60 : n]:
                sequence.add(difference)
            fixed.append(student_mean(differences[:n]))
            looks.append(fixed[0] if n == 60 else sequence.interval())
        true += [all(each.low <= 0 <= each.high for each in kind) for kind in (fixed, looks)]
    yield Coverage("ten looks, fixed interval", 600, true[0] / REPETITIONS, fixed[-1].half_width)
    yield Coverage("ten looks, as reported", 600, true[1] / REPETITIONS, looks[-1].half_width)


def without_fallbacks(share: float, games: int = 200) -> Iterator[Coverage]:
    """Games of 3 to 15 moves, of which long ones are won more often; `share` of moves fail."""
    rng = np.random.default_rng(games)
    chance = 0.51 + 0.03 * np.arange(3, 16)
    truth, kept, bounded, widths = chance.mean(), 0, 0, []
    for _ in range(REPETITIONS):
        lengths = rng.integers(3, 16, games)
        wins = rng.random(games) < chance[lengths - 3]
        known = rng.random(games) < (1 - share) ** lengths
        clean = rate(int(wins[known].sum()), int(known.sum()))
        lost, won = (rate(int(each.sum()), games) for each in worst_cases(wins, known))
        kept += clean.low <= truth <= clean.high
        bounded += lost.low <= truth <= won.high
        widths.append((won.high - lost.low) / 2)
    yield Coverage(f"{share:.0%} fail, games left out", games, kept / REPETITIONS, clean.half_width)
    width = float(np.mean(widths))
    yield Coverage(f"{share:.0%} fail, bounds", games, bounded / REPETITIONS, width)


def test_hard_cases_are_covered(capsys: pytest.CaptureFixture[str]) -> None:
    pool = play_oracles(DEALS)
    truth, lucks = float(pool.wins.mean()), centred(pool.luck)
    oracle = [
        measured(
            "luck out (oracle)",
            pool,
            truth,
            games,
            lambda drawn: without_luck(pool.wins[drawn], lucks[drawn]),
        )
        for games in (60, 100, 200)
    ]
    rare = [rare_wins(chance, games) for chance in (0.03, 0.06, 0.12) for games in (100, 200)]
    naive, reported = ten_looks()
    fallbacks = [row for share in (0.03, 0.1, 0.2) for row in without_fallbacks(share)]
    with capsys.disabled():
        print(f"\n{DEALS} deals, oracle {truth:.1%}; {REPETITIONS} repetitions")
        print(*oracle, *rare, naive, reported, *fallbacks, sep="\n")
    assert all(coverage.share >= 0.93 for coverage in oracle + rare)
    assert naive.share < 0.85 and reported.share >= 0.93
    assert all(coverage.share >= 0.95 for coverage in fallbacks[1::2])
