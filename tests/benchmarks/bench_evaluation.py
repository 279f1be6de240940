"""Cost and power of an evaluation: cores, and games needed.

Each figure is a comparison within one run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arena.episodes.executors import make_executor
from arena.episodes.match import Match
from arena.evaluation.aggregation import EvaluationAggregator
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.report import Report
from arena.evaluation.schedule import ExperimentSetup, evaluation_schedule, play_slot, run_schedule
from arena.plugins.loader import make_game
from games.cluedo.analysis.measures import STAGES


def play_all(setting: ExperimentSetup, slots: Sequence[Slot], workers: int) -> list[GameResult]:
    async def go() -> list[GameResult]:
        async with make_executor("local" if workers == 1 else "processes", workers) as executor:
            playing = run_schedule(
                slots, lambda slot: play_slot(setting, slot, executor), lambda _: None, 2 * workers
            )
            return [result async for result in playing]

    return asyncio.run(go())


def test_a_thousand_games_on_two_cores(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Replays are written, 100 games are scored: what `arena eval` does by default."""
    game = make_game("cluedo", players=4)
    slots = list(evaluation_schedule(4, "bot:detective", ["bot:novice"], None, 1000, 1))
    setting = ExperimentSetup(Match(game), replays=tmp_path, scored=frozenset(range(100)))
    seconds = {}
    for workers in (1, 2):
        started = time.perf_counter()
        results = play_all(setting, slots, workers)
        seconds[workers] = time.perf_counter() - started
        assert len(results) == 1000
    ratio = seconds[1] / seconds[2]
    with capsys.disabled():
        print(
            f"\n1,000 games: {seconds[1]:.1f} s on one core, {seconds[2]:.1f} s on two: "
            f"{ratio:.2f}x"
        )
    assert ratio >= 1.7


@pytest.mark.parametrize("players", [3, 4, 6])
def test_ten_games_tell_a_novice_from_a_detective(
    capsys: pytest.CaptureFixture[str], players: int
) -> None:
    """By the efficiency of late questions; beside it other measures and the games won."""
    game = make_game("cluedo", players=players)
    slots = list(evaluation_schedule(players, "bot:detective", ["bot:novice"], "bot:novice", 10, 1))
    report = report_of(game, slots)
    paired = report.comparison
    assert paired
    with capsys.disabled():
        print(f"\n{players} players, 10 deals, detective - novice")
        for name in (*(stage.measure for stage in STAGES), "missed_deduced", "leak_ratio"):
            e = paired.measures[name]
            print(f"  {name:16} {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]")
        e = paired.difference
        print(f"  {'games won':16} {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]")
    # Few of ten games have a case that only a deduction proves, so that measure needs more deals.
    assert paired.measures["efficiency_late"].excludes_zero


def report_of(game: Any, slots: Sequence[Slot], workers: int = 2) -> Report:
    baseline = slots[-1].role == "baseline"
    first, last = slots[0], slots[-1]
    assert first.seat is not None and last.seat is not None
    evaluation = EvaluationAggregator(
        game, first.specs[first.seat], last.specs[last.seat] if baseline else None
    )
    for result in play_all(ExperimentSetup(Match(game)), slots, workers):
        evaluation.add(result)
    return evaluation.report()
