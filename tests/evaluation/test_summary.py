"""Reports: what is counted, what is left out, and their tables and sentences."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena.agents.chat import ChatOptions
from arena.core.analysis import WeightedSum
from arena.core.event import WIN_RATE
from arena.core.game import Game
from arena.episodes.job import make_executor
from arena.episodes.match import Match
from arena.evaluation.aggregation import (
    EvaluationAggregator,
    TournamentAggregator,
    read_report,
)
from arena.evaluation.analysis import AnalysisAggregator
from arena.evaluation.document import Grid
from arena.evaluation.document.tables import document
from arena.evaluation.records import (
    DECISIONS,
    Estimate,
    GameResult,
    Interval,
    Role,
    SeatResult,
    Slot,
)
from arena.evaluation.report import Report
from arena.evaluation.schedule import (
    ExperimentSetup,
    evaluation_schedule,
    play_slot,
)
from arena.evaluation.statistics import Sums, difference_of_ratios
from arena.evaluation.store import load_run
from arena.evaluation.summary import holm
from arena.llm.backend import Request
from arena.llm.service import LLMService
from arena.plugins.catalog import make_game
from backends.scripted import ScriptedBackend, ScriptedReply
from replays.html_report.page import render

GAME = make_game("cluedo", players=3)


def game_of(
    number: int,
    won: bool,
    role: Role = "player",
    players: Sequence[str] = ("a", "b", "c"),
    fallbacks: Sequence[int] = (0, 0, 0),
    measurements: dict[str, WeightedSum] | None = None,
) -> GameResult:
    """A game of the first seat, which is under test; the second wins if it does not."""
    winner = 0 if won else 1
    seats = [
        SeatResult(player, float(seat == winner), seat == winner, fallbacks[seat])
        for seat, player in enumerate(players)
    ]
    seats[0] = replace(seats[0], measurements=measurements or {})
    slot = Slot(number, number // 2, tuple(players), role, 0 if role != "unknown" else None)
    return GameResult(slot, "terminated", "over", 9, 20, 0.1, tuple(seats), bool(measurements))


def pairs_of(results: Sequence[tuple[bool, bool]]) -> EvaluationAggregator:
    evaluation = EvaluationAggregator(GAME, ["a", "z"])
    for deal, (player, baseline) in enumerate(results):
        evaluation.add(game_of(2 * deal, player))
        evaluation.add(game_of(2 * deal + 1, baseline, "baseline", ("z", "b", "c")))
    return evaluation


def test_the_difference_is_that_of_the_pairs() -> None:
    report = pairs_of([(True, False)] * 6 + [(True, True)] * 3 + [(False, True)]).report()
    paired = report.comparison
    assert paired
    assert paired.difference.value == pytest.approx(0.5)
    assert paired.difference.n == paired.deals == 10
    assert [player.wins for player in report.players] == [9, 4]
    assert paired.games_needed and 2 < paired.games_needed < 60


def test_a_pair_whose_second_game_is_missing_does_not_count() -> None:
    evaluation = pairs_of([(True, False)] * 5)
    evaluation.add(game_of(10, False))
    report = evaluation.report()
    assert report.games == 10 and report.players[0].games == 5
    assert report.comparison and report.comparison.deals == 5
    assert report.comparison.difference.value == 1.0
    json.dumps(report.to_json(), allow_nan=False)


def test_games_with_a_fallback_are_told_apart() -> None:
    evaluation = EvaluationAggregator(GAME, ["a"])
    for number in range(12):
        faulty = number % 3 == 0
        evaluation.add(game_of(number, won=not faulty, fallbacks=(0, 2 * faulty, 0)))
    row = evaluation.report().players[0]
    assert row.win_rate.value == pytest.approx(8 / 12, abs=1e-6)
    assert row.outcomes.fallback == pytest.approx(4 / 12, abs=1e-6)
    told = "\n".join(document(evaluation.report()).sentences)
    assert "a: 4 of 12 seats were in games with a fallback move (0 its own)" in told


def test_a_verdict_after_several_looks_is_that_of_the_confidence_sequence() -> None:
    evaluation = pairs_of([(True, False)] * 12 + [(False, True)] * 3 + [(True, True)] * 15)
    assert "a wins more often than z" in document(evaluation.report()).sentences[0]
    assert evaluation.report().sequential is None
    evaluation.any_time = True
    report = evaluation.report()
    assert "a cannot be distinguished from z: +30 points" in document(report).sentences[0]
    assert report.sequential and report.sequential.target is None
    assert any("valid at whichever game" in text for text in document(report).remarks)


def talk(request: Request) -> ScriptedReply:
    """A model that sometimes babbles, and otherwise plays what it is told that it may."""
    last = request.messages[-1].content
    if len(last) % 5 == 0:
        return ScriptedReply("I do not know what to say.")
    found = re.findall(r"(?:show [A-Z][\w. ]+|end turn)", last)
    return ScriptedReply(found[-1] if found else "suggest Green, Rope, Study")


def test_models_are_evaluated_by_the_same_code_with_their_faults_counted() -> None:
    async def play_all() -> list[GameResult]:
        async with LLMService() as llm:
            llm.add("scripted", ScriptedBackend(talk))
            options = ChatOptions(max_attempts=1)
            setting = ExperimentSetup(Match(GAME, chat=options, max_turns=12))
            slots = evaluation_schedule(3, "scripted", ["bot:novice"], None, 4, 3)
            async with make_executor("local", llm=llm) as executor:
                return [await play_slot(setting, slot, executor) for slot in slots]

    evaluation = EvaluationAggregator(GAME, ["scripted"])
    results = asyncio.run(play_all())
    for result in results:
        evaluation.add(result)
    row = evaluation.report().players[0]
    replies = row.replies
    assert replies.attempts == replies.legal + sum(replies.failures.values())
    assert sum(replies.failures.values()) == replies.fallbacks > 0
    assert "unparsable" in replies.failures
    assert row.outcomes.fallback == sum(not result.no_fallback for result in results) / 4 > 0
    assert row.measures["legal_rate"].value == pytest.approx(
        replies.legal / replies.attempts, abs=1e-6
    )
    tables = {grid.title: grid for grid in document(evaluation.report(), 5).grids()}
    assert "unparsable" in tables["Replies of models"].rows[0][4]


def replies_of(cost: float, calls: float = 0, failures: int = 0) -> dict[str, WeightedSum]:
    """Measurements of a seat with two decisions."""
    amounts = {"cost": cost, "tool_calls": calls}
    found = {name: WeightedSum(amount) for name, amount in amounts.items() if amount}
    return {**found, DECISIONS: WeightedSum(2, 2), "legal_rate": WeightedSum(2 - failures, 2)}


def test_all_seats_of_a_team_count_for_replies_and_cost() -> None:
    # Opponents `self`: the seat under test and the third one are of one player.
    evaluation = EvaluationAggregator(GAME, ["a"])
    game = game_of(0, True, players=("a", "b", "a"), fallbacks=(0, 9, 2))
    parts = replies_of(0.1), replies_of(5.0), replies_of(0.3, failures=2)
    seats = (replace(s, measurements=m) for s, m in zip(game.seats, parts, strict=True))
    evaluation.add(replace(game, seats=tuple(seats)))
    row = evaluation.report().players[0]
    assert row.measures["cost"].value == pytest.approx(0.4)
    counts = row.replies
    assert (counts.decisions, counts.fallbacks, counts.attempts, counts.legal) == (4, 2, 4, 2)
    assert row.seats == 1 and row.measures["legal_rate"].value == 0.5


@pytest.mark.parametrize(("fallbacks", "unmeasured"), [(0, False), (1, False), (2, True)])
def test_a_player_of_fallback_moves_is_not_measured(fallbacks: int, unmeasured: bool) -> None:
    evaluation = EvaluationAggregator(GAME, ["a"])
    # A program has decisions, but no replies.
    own = {DECISIONS: WeightedSum(2, 2)}
    evaluation.add(game_of(0, True, fallbacks=(fallbacks, 0, 0), measurements=own))
    report = evaluation.report()
    assert report.players[0].is_unmeasured == unmeasured
    assert ("2 of its 2 decisions" in document(report).sentences[0]) == unmeasured


def reports() -> list[Report]:
    """One report of each kind, with all parts that it may have."""
    evaluation = pairs_of([(True, False)] * 25)
    evaluation.target = 0.1
    tournament, analysis = TournamentAggregator(GAME, ["a", "b", "c"]), AnalysisAggregator(GAME)
    for number in range(6):
        tournament.add(game_of(number, won=number < 4))
        analysis.add(game_of(number, won=number < 4))
    return [evaluation.report(), tournament.report(), analysis.report()]


@pytest.mark.parametrize("number", range(3), ids=["eval", "tournament", "analysis"])
def test_a_report_is_read_as_it_was_written(number: int) -> None:
    report = reports()[number]
    stored = json.loads(json.dumps(report.to_json(), allow_nan=False))
    again = Report.model_validate(stored)
    assert again.to_json() == stored
    assert document(again).sentences == document(report).sentences
    assert list(document(again, 5).grids()) == list(document(report, 5).grids())


def test_numbers_that_are_not_finite_are_unknown() -> None:
    broken = Interval(value=math.nan, low=-math.inf, high=1e300, n=3)
    assert broken == Interval(n=3)


RUNS = Path(__file__).parent / "data" / "runs"


@pytest.mark.parametrize("folder", sorted(RUNS.iterdir()), ids=lambda folder: folder.name)
def test_a_stored_run_has_the_same_report(folder: Path) -> None:
    report = read_report(folder)
    shown = document(report, 5).markdown(explain=True)
    assert f"{shown}\n" == (folder / "report.md").read_text(encoding="utf-8")
    games = load_run(folder)
    assert {len(column) for column in games.values()} == {len(games["game"])}
    if report.kind == "eval":
        own = (games["role"] == "tested") & (games["player"] == report.players[0].player)
        assert games["returns"][own].mean() == pytest.approx(report.players[0].mean_return.value)
        for name, interval in report.players[0].measures.items():
            assert np.isfinite(games[name][own]).any() and interval.value is not None


# Many rows: adjustment, par, roles, ended games

Measured = Mapping[str, float]


def measured_game(
    number: int,
    won: bool,
    measured: Measured | None = None,
    role: Role = "player",
    players: Sequence[str] = ("a", "b", "c"),
) -> GameResult:
    sums = {name: WeightedSum(value) for name, value in (measured or {}).items()}
    return game_of(number, won, role, players, measurements=sums)


def grid_of(report: Report, start: str) -> Grid:
    return next(grid for grid in document(report, 5).grids() if grid.title.startswith(start))


# Ended games


def entropies(*values: float) -> Measured:
    return {f"entropy/{turn}": value for turn, value in enumerate(values, start=1)}


def test_a_game_that_has_ended_keeps_its_last_entropy_and_a_won_one_zero() -> None:
    """The mean over the games still running would rise from 3 to 5 bits, although none did."""
    evaluation = EvaluationAggregator(GAME, ["a", "z"])
    for deal, course in enumerate([(6.0, 1.0), (6.0, 5.0, 5.0), (6.0, 3.0)]):
        evaluation.add(measured_game(2 * deal, deal == 0, entropies(*course)))
        evaluation.add(
            measured_game(2 * deal + 1, True, entropies(6.0), "baseline", ("z", "b", "c"))
        )
    report = evaluation.report()
    player, baseline = (row.line("entropy") for row in report.players)
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
        evaluation.add(measured_game(2 * deal, deal % 4 > 0, good))
        evaluation.add(measured_game(2 * deal + 1, deal % 4 == 0, bad, "baseline", ("z", "b", "c")))
    return evaluation.report()


def test_all_differences_but_the_primary_one_are_adjusted() -> None:
    report = compared()
    paired = report.comparison
    assert paired and set(paired.adjusted_p) == {"accusations_right", "efficiency_late"}
    grid = grid_of(report, "Measures")
    assert grid.title.endswith("; p adjusted for 2 comparisons (Holm)")
    assert grid.headings == ["measure", "a", "z", "difference", "p"]
    late = paired.adjusted_p["efficiency_late"] or 0
    assert 0 < late < 0.05 and {row[0]: row[4] for row in grid.rows} == {
        "right accusations ↑": "<0.001",
        "question efficiency, late ↑": f"{late:.3f}",
    }
    answer, where = document(report).sentences
    assert answer.startswith("a wins more often than z: +50 ")
    assert answer.endswith("; about 25 deals are needed to rely on a difference this large.")
    assert where.startswith("a is better in question efficiency, late (+")
    assert where.endswith(" points), right accusations (+88 points).")
    difference = grid_of(report, "cluedo").rows[-1]
    assert difference[:2] == ("difference", "24") and difference[2].startswith("+50 points [")


def tournament_of(games: int) -> Report:
    rng = np.random.default_rng(0)
    tournament = TournamentAggregator(GAME, ["a", "b", "c"])
    for number in range(games):
        first, *others = rng.permutation(["a", "b", "c"]).tolist()
        # "a" wins four games of five; the other two are equal.
        names = ["a", *({first, *others} - {"a"})] if rng.random() < 0.8 else [first, *others]
        tournament.add(measured_game(2 * number, True, players=names))
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
    assert document(report).sentences[0].startswith("a leads")


# Par


class OfTeams(type(GAME)):  # type: ignore[misc]
    """Two teams of a game for three: a game may declare its own par."""

    return_scale = replace(WIN_RATE, par=0.5)


@pytest.mark.parametrize(("game", "par"), [(GAME, "33 %"), (OfTeams(players=3), "50 %")])
def test_par_is_beside_each_rate_of_wins(game: Game, par: str) -> None:
    evaluation, tournament = EvaluationAggregator(game, ["a"]), AnalysisAggregator(game)
    for number in range(8):
        evaluation.add(measured_game(number, number < 4))
        tournament.add(measured_game(number, number < 4))
    for report in (evaluation.report(), tournament.report()):
        assert f"won (par {par})" in next(document(report, 5).grids()).headings
        assert grid_of(report, "Outcomes").title.endswith(f"; won (par {par})")
        _, compared = document(report).sentences[0].split(" of 8 games, which ")
        assert compared == f"cannot be distinguished from equal players ({par})."
        for number in range(8, 208):
            tournament.add(measured_game(number, True))
    assert document(tournament.report()).sentences[0].endswith(f"more than equal players ({par}).")
    unknown = Report.model_validate({**evaluation.report().to_json(), "par": None})
    assert "par" not in "".join(map(str, document(unknown, 5).grids()))


# Roles


def test_tested_players_are_not_mixed_with_opponents() -> None:
    """Player b is tested in a few games and sits as an opponent in others, which it wins."""
    analysis = AnalysisAggregator(GAME)
    for number in range(12):
        analysis.add(measured_game(number, won=False))
        analysis.add(measured_game(number, won=False, players=("b", "d", "c"), role="baseline"))
    report = analysis.report()
    rows = {(row.player, row.role): row for row in report.players}
    assert rows["b", "tested"].win_rate.value == 0.0
    assert rows["b", "opponent"].win_rate.value == 1.0
    roles = [row.role for row in report.players]
    assert roles == sorted(roles, key=lambda role: role == "opponent")
    board = next(document(report, 5).grids())
    assert board.headings[:2] == ["player", "role"]
    assert {row[0] for row in grid_of(report, "Outcomes").rows} >= {"b (tested)", "b (opponent)"}
    assert not report.notes and "(opponent)" in render(document(report))
    assert document(report).sentences[0].endswith("allow for the choice of the best of 2.")
