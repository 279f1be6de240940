"""Measures of Cluedo on players whose play is equal and whose games have different lengths.

A novice sits among detectives, among novices, and among detectives that never accuse; a detective
beside it shows cards by the same rule. What measures describe is equal, so they have to be.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from arena.agents.agent import Agent, Seat
from arena.core.analysis import Measurements, sum_measurements
from arena.core.seeds import stream
from arena.episodes.executors import available_cores
from arena.episodes.match import Match, play
from games.cluedo.analysis.assessor import CluedoAssessor
from games.cluedo.analysis.measures import STAGES
from games.cluedo.bots import CluedoBot, Detective, Novice
from games.cluedo.game import Cluedo
from games.cluedo.rules.cards import Triple

DEALS = 300
PLAYERS = 3
COMPARABLE = ("leak_ratio", *(stage.measure for stage in STAGES), "missed_seen", "missed_deduced")
FORMER = ("leaked", "bits", "efficiency", "turns_to_accuse")


class Patient(Detective):
    """A detective that never accuses."""

    def accusation(self, may_suggest: bool) -> Triple | None:
        return None


Table = tuple[type[CluedoBot], type[CluedoBot]]
"""The tested bot and its opponents."""
TABLES: tuple[Table, ...] = (
    (Novice, Detective),
    (Novice, Novice),
    (Novice, Patient),
    (Detective, Novice),
)


def measured(table: Table, seed: int) -> Measurements:
    """Return the sums of the tested seat in one game."""
    game, tested = Cluedo(players=PLAYERS), seed % PLAYERS
    agents: list[Agent] = [
        table[number != tested](Seat(game, number, stream(seed, f"bot {number}")))
        for number in range(PLAYERS)
    ]
    episode = asyncio.run(play(Match(game, (), seed, max_turns=60), agents))
    assessor = CluedoAssessor(game, (tested,))
    found = [each for ply in episode.plies for each in assessor.ply(ply)]
    found += assessor.end(episode.outcome)
    return sum_measurements(each.measurements for each in found)


class Ratio:
    """The ratio of sums of a measure, and the influence of each deal on it."""

    def __init__(self, games: Iterable[Measurements], name: str) -> None:
        pairs = [(g[name].total, g[name].weight) if name in g else (0.0, 0.0) for g in games]
        totals, weights = np.array(pairs).T
        self.value = float(totals.sum() / weights.sum())
        self.influence = (totals - self.value * weights) / weights.mean()

    @property
    def error(self) -> float:
        return standard_error(self.influence)

    def distance(self, other: Ratio) -> float:
        """Return the difference on the same deals, in standard errors."""
        error = standard_error(self.influence - other.influence)
        return abs(self.value - other.value) / error if error > 1e-12 else 0.0


def standard_error(influence: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(influence.std(ddof=1)) / math.sqrt(len(influence))


def test_equal_play_has_equal_measures(capsys: pytest.CaptureFixture[str]) -> None:
    def play_all() -> dict[Table, list[Measurements]]:
        with ProcessPoolExecutor(available_cores()) as pool:
            return {
                table: list(pool.map(partial(measured, table), range(DEALS), chunksize=10))
                for table in TABLES
            }

    games = play_all()
    ratios = {
        name: [Ratio(games[table], name) for table in TABLES] for name in (*COMPARABLE, *FORMER)
    }
    with capsys.disabled():
        print(f"\n{DEALS} deals, {PLAYERS} players: tested bot among opponents")
        print(" " * 18, *(f"{bot.__name__}/{others.__name__:<10}" for bot, others in TABLES))
        for name, row in ratios.items():
            print(f"{name:18}", *(f"{ratio.value:9.3f} ± {ratio.error:.3f}  " for ratio in row))
    # The detective plays like the novice only where it shows cards.
    assert all(a.distance(b) < 3 for a, b in combinations(ratios["leak_ratio"], 2))
    for name in COMPARABLE[1:]:
        assert all(a.distance(b) < 3 for a, b in combinations(ratios[name][:3], 2)), name
    for name in FORMER:
        assert any(a.distance(b) > 3 for a, b in combinations(ratios[name][:3], 2)), name
