"""Cost and power of an evaluation: cores, games needed, variance reduction by the control.

Each figure is a comparison within one run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kuhn_bots import kuhn_bots

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


@pytest.mark.parametrize("players", [3, 4, 6])
@pytest.mark.parametrize(
    ("player", "other"),
    [
        ("detective", "novice"),
        ("novice", "novice"),
        ("detective", "detective"),
        # It states no policy, like a model: only the draws of its opponents are taken out.
        ("oracle", "novice"),
        ("oracle", "detective"),
    ],
)
def test_games_that_luck_is_worth_in_cluedo(
    capsys: pytest.CaptureFixture[str], player: str, other: str, players: int
) -> None:
    """The variance of the results of the same games, with luck and without it."""
    game = make_game("cluedo", players=players)
    slots = list(evaluation_schedule(players, f"bot:{player}", [f"bot:{other}"], None, 200, 1))
    report = report_of(game, slots)
    with capsys.disabled():
        print(f"\n{players} players, {player} among {other}s, {gain(report)}")
    assert report.controlled and report.controlled.variance_ratio is not None
    assert report.controlled.variance_ratio >= 0.95


@pytest.mark.parametrize(
    ("game", "player", "opponent", "baseline"),
    [
        ("kuhn_poker", "bluffer", "random", None),
        ("kuhn_poker", "bluffer", "random", "careful"),
        ("kuhn_poker", "bluffer", "careful", None),
        ("tictactoe", "random", "random", None),
    ],
)
def test_games_that_luck_is_worth_in_small_games(
    capsys: pytest.CaptureFixture[str],
    game: str,
    player: str,
    opponent: str,
    baseline: str | None,
) -> None:
    """The same, for the difference if there is a baseline."""
    other = f"bot:{baseline}" if baseline else None
    slots = list(evaluation_schedule(2, f"bot:{player}", [f"bot:{opponent}"], other, 1000, 1))
    with kuhn_bots():
        report = report_of(make_game(game), slots, 1)
    with capsys.disabled():
        print(f"\n{game}, {player} minus {baseline} against {opponent}, {gain(report)}")
    assert report.controlled and report.controlled.variance_ratio is not None
    assert report.controlled.variance_ratio > 1.4


def gain(report: Report) -> str:
    """Return the result with luck and without it."""
    plain = report.comparison.difference if report.comparison else report.players[0].mean_return
    assert report.controlled and plain
    return (
        f"{plain.n} games: variance ratio {report.controlled.variance_ratio:.2f}, "
        + ", without luck ".join(
            f"{each.value:+.3f} [{each.low:+.3f}, {each.high:+.3f}]"
            for each in (plain, report.controlled.estimate)
        )
    )


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
