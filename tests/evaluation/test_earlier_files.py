"""Files that the first version of arena wrote: results and reports with former names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arena.core.outcome import WIN_RATE
from arena.evaluation.analysis import GroupedAnalyses, stored_games
from arena.evaluation.report import Report, read_report
from arena.evaluation.tables import grids
from arena.evaluation.verdict import sentences

DATA = Path(__file__).parent / "data"


def stored_report(kind: str) -> Report:
    return read_report(json.loads((DATA / f"{kind}-v1.json").read_text()))


def test_stored_results_are_analyzed_under_the_present_names() -> None:
    analyses = GroupedAnalyses()
    for game in stored_games(DATA / "eval-v1.sqlite"):
        analyses.add(game)
    (report,) = analyses.reports()
    assert (report.games, report.scored, report.settings) == (6, 4, {"text_level": "deductions"})
    then = {player.player: player for player in stored_report("eval").players}
    assert {player.player for player in report.players} == set(then)
    model = next(player for player in report.players if player.player == "embedded:clue-tiny")
    assert "legal_rate" in model.measures and "legal" not in model.measures
    assert model.replies == then[model.player].replies
    assert "legal_rate" in {measure.name for measure in report.measures}


def test_a_stored_results_file_gives_outcome_shares_and_is_not_changed() -> None:
    """An earlier version stored the returns and the ends of games, so nothing has to be guessed."""
    path = DATA / "eval-v1.sqlite"
    before = path.read_bytes()
    analyses = GroupedAnalyses()
    for game in stored_games(path):
        analyses.add(game)
    (report,) = analyses.reports()
    assert report.scale == WIN_RATE and report.truncated == 0
    for player in report.players:
        assert player.outcomes.won == player.win_rate.value == player.mean_return.value
        assert (player.outcomes.lost or 0) + (player.outcomes.won or 0) == pytest.approx(1)
    assert path.read_bytes() == before


def test_a_stored_evaluation_is_read_under_the_present_names() -> None:
    report = stored_report("eval")
    model, baseline = report.players
    assert model.no_fallback.seats == 3 and model.measures["legal_rate"].value is not None
    assert report.measures[-5].name == "legal_rate"
    assert report.comparison and report.comparison.no_fallback_difference.n == 3
    assert "embedded:clue-tiny cannot be distinguished from bot:novice" in next(sentences(report))
    assert baseline.player == "bot:novice" and len(list(grids(report))) == 4


def test_a_stored_tournament_is_read_under_the_present_names() -> None:
    report = stored_report("tournament")
    assert all(player.no_fallback_rating.value for player in report.players)
    assert report.balance.games == (4, 4)
    assert str(report.balance) in report.design


@pytest.mark.parametrize("kind", ["eval", "tournament"])
def test_a_stored_report_is_written_under_the_present_names(kind: str) -> None:
    text = json.dumps(stored_report(kind).to_json())
    assert "clean" not in text and '"legal": {' not in text
