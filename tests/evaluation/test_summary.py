"""Reports: what is counted, what is left out, and their tables and sentences."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena.agents.chat import ChatOptions
from arena.core.analysis import WeightedSum
from arena.episodes.executors import make_executor
from arena.episodes.match import Match
from arena.evaluation.aggregation import (
    EvaluationAggregator,
    TournamentAggregator,
    report_run,
)
from arena.evaluation.analysis import AnalysisAggregator
from arena.evaluation.document.tables import document
from arena.evaluation.records import DECISIONS, GameResult, Interval, Role, SeatResult, Slot
from arena.evaluation.report import Report
from arena.evaluation.schedule import (
    ExperimentSetup,
    evaluation_schedule,
    play_slot,
)
from arena.evaluation.store import load_run
from arena.evaluation.summary import Sample, calibration_error, calibration_of
from arena.llm.backend import Request
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend, ScriptedReply

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
    seats = [
        SeatResult(player, float(won == (seat == 0)), won == (seat == 0), fallbacks[seat])
        for seat, player in enumerate(players)
    ]
    seats[0] = SeatResult(players[0], float(won), won, fallbacks[0], measurements or {})
    slot = Slot(number, number // 2, tuple(players), role, 0)
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
    assert row.no_fallback.seats == 8
    bounds = row.no_fallback.bounds
    assert bounds.value is None and bounds.low is not None and bounds.high == 1.0
    assert bounds.low < 0.45, "the interval of 8 wins of 12, in 6 deals"
    told = "\n".join(document(evaluation.report()).sentences)
    assert "a: 4 of 12 seats were in games with a fallback move (0 its own)" in told
    (cells,) = next(document(evaluation.report(), 5).grids).rows
    assert cells[-2:] == ("8", f"{100 * bounds.low:.0f} to 100 %")


def test_the_bounds_of_a_difference_are_those_of_the_worst_and_the_best_case() -> None:
    evaluation = EvaluationAggregator(GAME, ["a", "z"])
    for deal in range(60):
        evaluation.add(game_of(2 * deal, True, fallbacks=(int(deal < 20), 0, 0)))
        players = ("z", "b", "c")
        evaluation.add(game_of(2 * deal + 1, deal % 2 == 0, "baseline", players, (0, 0, deal < 10)))
    report = evaluation.report()
    paired = report.comparison
    assert paired and paired.fallback_bounds.low is not None and paired.fallback_bounds.high
    # At worst 20 wins are losses and 5 of the baseline's losses are wins, at best 5 fewer are.
    assert paired.fallback_bounds.low < 0.5 - 25 / 60 < 0.5 + 5 / 60 < paired.fallback_bounds.high
    assert any(
        "Without fallback moves the difference" in text for text in document(report).sentences
    )
    rows = [row[0] for grid in document(report, 5).grids for row in grid.rows]
    assert "… bounds without fallback moves" in rows


def test_a_verdict_after_several_looks_is_that_of_the_confidence_sequence() -> None:
    evaluation = pairs_of([(True, False)] * 12 + [(False, True)] * 3 + [(True, True)] * 15)
    assert "a wins more often than z" in document(evaluation.report()).sentences[0]
    assert evaluation.report().sequential is None
    evaluation.any_time = True
    report = evaluation.report()
    assert "a cannot be distinguished from z: +30 points" in document(report).sentences[0]
    assert report.sequential and report.sequential.target is None
    assert any("valid at whichever game" in text for text in document(report).sentences)


def test_calibration_error_is_the_mean_distance_from_the_posterior() -> None:
    sample = Sample("a")
    measurements = {
        "stated/1": WeightedSum(1.5, 10),
        "calibration/1": WeightedSum(2.5, 10),
        "stated/9": WeightedSum(28.5, 30),
        "calibration/9": WeightedSum(22.5, 30),
    }
    sample.add(game_of(1, won=True, measurements=measurements), 0, GAME.return_scale)
    assert calibration_error(calibration_of(sample)) == pytest.approx((10 * 0.1 + 30 * 0.2) / 40)
    assert calibration_error(calibration_of(Sample("b"))) is None


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
    assert row.no_fallback.seats == sum(result.no_fallback for result in results) < 4
    assert row.measures["legal_rate"].value == pytest.approx(
        replies.legal / replies.attempts, abs=1e-6
    )
    tables = {grid.title: grid for grid in document(evaluation.report(), 5).grids}
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
    assert row.usage.cost == pytest.approx(0.4) == row.measures["cost"].value
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
    assert list(document(again, 5).grids) == list(document(report, 5).grids)


def test_numbers_that_are_not_finite_are_unknown() -> None:
    broken = Interval(value=math.nan, low=-math.inf, high=1e300, n=3)
    assert broken == Interval(n=3)


RUNS = Path(__file__).parent / "data" / "runs"


@pytest.mark.parametrize("folder", sorted(RUNS.iterdir()), ids=lambda folder: folder.name)
def test_a_stored_run_has_the_same_report(folder: Path) -> None:
    report = report_run(folder)
    shown = document(report, 5).markdown(explain=True)
    assert f"{shown}\n" == (folder / "report.md").read_text(encoding="utf-8")
    games = load_run(folder)
    assert {len(column) for column in games.values()} == {len(games["game"])}
    if report.kind == "eval":
        own = (games["role"] == "tested") & (games["player"] == report.players[0].player)
        assert games["returns"][own].mean() == pytest.approx(report.players[0].mean_return.value)
        for name, interval in report.players[0].measures.items():
            assert np.isfinite(games[name][own]).any() and interval.value is not None
