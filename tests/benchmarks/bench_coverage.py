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

import numpy as np
import pytest
from log_capital import log_capital
from numpy.typing import NDArray
from slot_games import play_by_bots
from student import student_mean

from arena.episodes.job import available_cores
from arena.episodes.match import Match
from arena.evaluation.records import Estimate, GameResult, Role, Slot
from arena.evaluation.schedule import ExperimentSetup
from arena.evaluation.statistics import clustered_mean, rate
from arena.evaluation.statistics.confidence_sequence import ConfidenceSequence
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


def play_slot(slot: Slot) -> GameResult:
    """No game is scored by the exact posterior, which takes longer than playing."""
    game = Cluedo(variant="cards", players=PLAYERS)
    return play_by_bots(ExperimentSetup(Match(game), scored=frozenset()), slot)


def play_pool(deals: int) -> tuple[Floats, Floats]:
    """Return the wins of the detective and of the novice in the same seats, (deals,) each."""
    with ProcessPoolExecutor(available_cores()) as processes:
        results = list(processes.map(play_slot, slots(deals), chunksize=20))
    wins = np.array([float(result.tested.won) for result in results])
    return wins[::2], wins[1::2]


def measured(
    name: str, truth: float, games: int, estimate: Callable[[NDArray[np.intp]], Estimate]
) -> Coverage:
    """How often the interval of so many games that are drawn from the pool contains the truth."""
    rng = np.random.default_rng(games)
    found = [estimate(rng.integers(DEALS, size=games)) for _ in range(REPETITIONS)]
    share = sum(each.low <= truth <= each.high for each in found) / REPETITIONS
    return Coverage(name, games, share, float(np.mean([each.half_width for each in found])))


def fixed(wins: Floats, novice_wins: Floats, games: int) -> Iterator[Coverage]:
    """The intervals of a number of games that is fixed before."""
    cover, differences = partial(measured, games=games), wins - novice_wins

    def won(pool: Floats, drawn: NDArray[np.intp]) -> Estimate:
        return rate(int(pool[drawn].sum()), games)

    for name, pool in (("detective", wins), ("novice", novice_wins)):
        yield cover(f"plain ({name})", float(pool.mean()), estimate=partial(won, pool))
    yield cover(
        "paired",
        float(differences.mean()),
        estimate=lambda drawn: clustered_mean(
            differences[drawn], np.arange(games), draws=1000, bounds=(-1, 1)
        ),
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


def test_intervals_cover_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    wins, novice_wins = play_pool(DEALS)
    fixed_size = [coverage for games in SIZES for coverage in fixed(wins, novice_wins, games)]
    anytime = [*sequential(wins), *sequential(novice_wins)]
    naive, reported = ten_looks()
    with capsys.disabled():
        print(f"\n{DEALS} deals: detective {wins.mean():.1%}, novice {novice_wins.mean():.1%}")
        print(*fixed_size, *anytime, naive, reported, sep="\n")
    assert all(0.93 <= each.share <= 0.97 for each in fixed_size)
    error = math.sqrt(0.95 * 0.05 / REPETITIONS)
    assert all(coverage.share >= 0.95 - 2 * error for coverage in anytime)
    assert naive.share < 0.85 and reported.share >= 0.93
