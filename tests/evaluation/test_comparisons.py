"""Comparisons of many rows: adjustment, primary result, par, roles, ended games, clipped ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from arena.core.analysis import WeightedSum
from arena.core.game import Game
from arena.core.outcome import WIN_RATE
from arena.evaluation.aggregation import EvaluationAggregator, TournamentAggregator
from arena.evaluation.analysis import AnalysisAggregator
from arena.evaluation.document import Grid
from arena.evaluation.document.tables import document
from arena.evaluation.records import Estimate, GameResult, Role, SeatResult, Slot
from arena.evaluation.report import Report
from arena.evaluation.statistics import Sums, difference_of_ratios
from arena.evaluation.summary import (
    holm,
)
from arena.plugins.loader import make_game
from replays.html_report.page import render

GAME = make_game("cluedo", players=3)
Measured = Mapping[str, float]


def game_of(
    number: int,
    won: bool,
    measured: Measured | None = None,
    role: Role = "player",
    players: Sequence[str] = ("a", "b", "c"),
) -> GameResult:
    """A game whose first seat is under test and has these measurements; it or the second wins."""
    sums = {name: WeightedSum(value) for name, value in (measured or {}).items()}
    seats = [
        SeatResult(player, float(won == (seat == 0) and seat < 2), won == (seat == 0) and seat < 2)
        for seat, player in enumerate(players)
    ]
    seats[0] = SeatResult(players[0], float(won), won, 0, sums)
    slot = Slot(number, number // 2, tuple(players), role, 0 if role != "unknown" else None)
    return GameResult(slot, "terminated", "over", 9, 20, 0.1, tuple(seats), bool(sums))


def grid_of(report: Report, start: str) -> Grid:
    return next(grid for grid in document(report, 5).grids if grid.title.startswith(start))


# Ended games


def entropies(*values: float) -> Measured:
    return {f"entropy/{turn}": value for turn, value in enumerate(values, start=1)}


def test_a_game_that_has_ended_keeps_its_last_entropy_and_a_won_one_zero() -> None:
    """The mean over the games still running would rise from 3 to 5 bits, although none did."""
    evaluation = EvaluationAggregator(GAME, ["a", "z"])
    for deal, course in enumerate([(6.0, 1.0), (6.0, 5.0, 5.0), (6.0, 3.0)]):
        evaluation.add(game_of(2 * deal, deal == 0, entropies(*course)))
        evaluation.add(game_of(2 * deal + 1, True, entropies(6.0), "baseline", ("z", "b", "c")))
    report = evaluation.report()
    player, baseline = (line.line("entropy") for line in report.players)
    assert [point.value for point in player.values()] == pytest.approx([6.0, 3.0, 8 / 3])
    assert [point.n for point in player.values()] == [3, 3, 3]
    assert [point.value for point in baseline.values()] == [6.0, 0.0, 0.0], "as long as the other"
    assert "a game that the player has won counts as 0 bits" in render(document(report))


# Adjustment


def test_holms_adjustment_is_that_of_r() -> None:
    # p.adjust(c(.01, .04, .03, .005), "holm")
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005, "unknown": math.nan})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert holm({}) == {} and holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}


def differences(seed: int, effect: float, deals: int = 20) -> list[Estimate]:
    """Fifteen measures of two players; all but the first are the same for both."""
    values = np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], (deals, 15), p=[0.2, 0.6, 0.2])
    values[:, 0] += effect
    ones = np.ones_like(values)
    first = Sums(values, ones, np.arange(deals))
    second = Sums(np.zeros_like(values), ones, np.arange(deals))
    return difference_of_ratios(first, second, bounds=(-2.0, 2.0))


def test_a_p_value_is_below_5_percent_where_the_interval_excludes_0() -> None:
    for seed in range(30):
        for each in differences(seed, 0.3):
            if abs(each.p - 0.05) > 0.003:
                assert (each.p < 0.05) == (each.low > 0 or each.high < 0), each


def compared() -> Report:
    evaluation = EvaluationAggregator(GAME, ["a", "z"])
    for deal in range(24):
        good, same = {"accusations_right": 1.0, "efficiency_late": 0.5 + deal % 3 / 10}, deal % 2
        bad = {"accusations_right": float(deal % 8 == 0), "efficiency_late": 0.5 + same / 10}
        evaluation.add(game_of(2 * deal, deal % 4 > 0, good))
        evaluation.add(game_of(2 * deal + 1, deal % 4 == 0, bad, "baseline", ("z", "b", "c")))
    return evaluation.report()


def test_all_differences_but_the_primary_one_are_adjusted() -> None:
    report = compared()
    paired = report.comparison
    assert paired and set(paired.adjusted_p) == {"accusations_right", "efficiency_late"}
    grid = grid_of(report, "a − z")
    assert grid.title.endswith("; p adjusted for 2 comparisons (Holm)")
    assert grid.headings == ["measure", "difference", "p"]
    cells = {row[0]: row[2] for row in grid.rows}
    late = paired.adjusted_p["efficiency_late"]
    assert cells == {
        "primary: games won": "",
        "right accusations ↑": "<0.001",
        "question efficiency, late ↑": f"{late:.3f}",
    }
    answer = document(report).sentences[0]
    assert answer.startswith("Primary result: a wins more often than z: +50 ")
    assert "exploratory" in grid_of(report, "Measures").title
    assert grid_of(report, "a − z").title.endswith("p adjusted for 2 comparisons (Holm)")


def tournament_of(games: int) -> Report:
    rng = np.random.default_rng(0)
    tournament = TournamentAggregator(GAME, ["a", "b", "c"])
    for number in range(games):
        first, *others = rng.permutation(["a", "b", "c"]).tolist()
        # "a" wins four games of five; the other two are equal.
        names = ["a", *({first, *others} - {"a"})] if rng.random() < 0.8 else [first, *others]
        tournament.add(game_of(2 * number, True, players=names))
    return tournament.report()


def test_the_pairs_of_a_tournament_are_adjusted() -> None:
    report = tournament_of(60)
    by_pair = {frozenset((pair.first, pair.second)): pair for pair in report.pairs}
    values = {pair: each.adjusted_p for pair, each in by_pair.items()}
    assert (values[frozenset("ab")] or 0) < 0.01 > (values[frozenset("ac")] or 0)
    assert (values[frozenset("bc")] or 0) > 0.05
    grid = grid_of(report, "Pairs of players")
    assert grid.title.endswith("first ahead (par 50 %); p adjusted for 3 comparisons (Holm)")
    assert [row[2] for row in grid.rows if row[0].startswith("a")] == ["<0.001"] * 2
    assert document(report).sentences[0].startswith("Primary result: a leads")


# Par


class OfTeams(type(GAME)):  # type: ignore[misc]
    """Two teams of a game for three: a game may declare its own par."""

    return_scale = replace(WIN_RATE, par=0.5)


@pytest.mark.parametrize(("game", "par"), [(GAME, "33 %"), (OfTeams(players=3), "50 %")])
def test_par_is_beside_each_rate_of_wins(game: Game, par: str) -> None:
    evaluation, tournament = EvaluationAggregator(game, ["a"]), AnalysisAggregator(game)
    for number in range(8):
        evaluation.add(game_of(number, number < 4))
        tournament.add(game_of(number, number < 4))
    for report in (evaluation.report(), tournament.report()):
        assert f"won (par {par})" in next(document(report, 5).grids).headings
        assert grid_of(report, "Outcomes").title.endswith(f"; won (par {par})")
        assert f"of 8 games (par {par})." in document(report).sentences[0]
    unknown = Report.model_validate({**evaluation.report().to_json(), "par": None})
    assert "par" not in "".join(map(str, document(unknown, 5).grids))


# Roles


def test_tested_players_are_not_mixed_with_opponents() -> None:
    """Player b is tested in a few games and sits as an opponent in others, which it wins."""
    analysis = AnalysisAggregator(GAME)
    for number in range(12):
        analysis.add(game_of(number, won=False))
        analysis.add(game_of(number, won=False, players=("b", "d", "c"), role="baseline"))
    report = analysis.report()
    rows = {(row.player, row.role): row for row in report.players}
    assert rows["b", "tested"].win_rate.value == 0.0
    assert rows["b", "opponent"].win_rate.value == 1.0
    roles = [row.role for row in report.players]
    assert roles == sorted(roles, key=lambda role: role == "opponent")
    board = next(document(report, 5).grids)
    assert board.headings[:2] == ["player", "role"]
    assert {row[0] for row in grid_of(report, "Outcomes").rows} >= {"b (tested)", "b (opponent)"}
    assert not report.notes and "(opponent)" in render(document(report))
