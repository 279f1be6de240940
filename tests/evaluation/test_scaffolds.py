"""`arena eval --scaffolds`: one model with several scaffolds, on the same deals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from arena.cli import run
from arena.cli.evaluate import scaffolded
from arena.core.errors import UsageError
from arena.evaluation.aggregation import EvaluationAggregator, report_results
from arena.evaluation.document.tables import document
from arena.evaluation.records import GameResult, SeatResult, Slot
from arena.evaluation.report import Report
from arena.evaluation.schedule import evaluation_schedule
from arena.evaluation.store import Results
from arena.plugins.catalog import make_game
from replays.html_report.page import render

GAME = make_game("cluedo", players=3)
PLAYERS = ["m+none", "m+notes", "m+deductions"]


def result_of(number: int, deal: int, spec: str, won: bool) -> GameResult:
    slot = Slot(number, deal, (spec, "b", "c"), "player" if not number % 3 else "baseline", 0)
    seats = [SeatResult(each, float(won and not n), won and not n)
             for n, each in enumerate(slot.specs)]  # fmt: skip
    return GameResult(slot, "terminated", "over", 9, 20, 0.1, tuple(seats))


def report_of(games: int, winners: Sequence[int]) -> Report:
    """Return the report of games in which the scaffolds of these numbers win."""
    aggregator = EvaluationAggregator(GAME, PLAYERS, by_scaffold=True)
    for number in range(games):
        aggregator.add(result_of(number, number // 3, PLAYERS[number % 3], number % 3 in winners))
    return aggregator.report()


def test_the_comparison_shows_what_a_model_lacks_that_deduces_nothing() -> None:
    report = report_of(24, [2])
    assert report.comparison and report.comparison.scaffolds == ("deductions", "none")
    assert report.difference.excludes_zero
    memory, deduction = (note for note in report.notes if " − " in note)
    assert memory.startswith("Memory: notes − none is 0 points") and "do not show" in memory
    assert deduction.startswith("Deduction: deductions − notes is +")
    assert deduction.endswith("the model does not deduce by itself all that follows from what it "
                              "has seen.")  # fmt: skip
    (pairs,) = (grid for grid in document(report, 5).grids() if "Differences" in grid.title)
    assert [row[0] for row in pairs.rows] == [
        "m+notes − m+none", "m+deductions − m+notes", "m+deductions − m+none"
    ]  # fmt: skip
    assert pairs.title.endswith("; p adjusted for 2 comparisons (Holm)")
    assert float(pairs.rows[1][3].lstrip("<")) < 0.05 and pairs.rows[2][3] == "primary"
    assert document(report).sentences[0].startswith("m+deductions wins more often than m+none")
    assert "Deduction: deductions − notes" in render(document(report))
    assert Report.model_validate(report.to_json()) == report


def test_only_deals_that_were_played_with_each_scaffold_count() -> None:
    aggregator = EvaluationAggregator(GAME, PLAYERS, by_scaffold=True)
    for number in range(8):
        aggregator.add(result_of(number, number // 3, PLAYERS[number % 3], number % 3 == 2))
    assert aggregator.games == 6
    report = aggregator.report()
    assert [player.games for player in report.players] == [2, 2, 2]
    assert [pair.scaffolds for pair in report.comparisons] == [
        ("notes", "none"), ("deductions", "notes"), ("deductions", "none")
    ]  # fmt: skip
    assert aggregator.status() == "m+none won 0 %"


def test_a_help_that_makes_play_worse_is_called_so() -> None:
    notes = report_of(90, [0, 1]).notes
    assert any(n.startswith("Deduction") and n.endswith("makes its play worse.") for n in notes)


def test_the_games_of_a_deal_differ_in_the_scaffold_only() -> None:
    slots = list(evaluation_schedule(3, "a", ["x", "y", "z"], ["b", "c", "d"], 20, 1))
    assert [slot.number for slot in slots] == list(range(80))
    for deal in range(20):
        games = slots[4 * deal : 4 * deal + 4]
        assert Counter(slot.role for slot in games) == {"player": 1, "baseline": 3}
        assert len({(slot.seed, slot.seat) for slot in games}) == 1
        others = {tuple(s for n, s in enumerate(slot.specs) if n != slot.seat) for slot in games}
        assert len(others) == 1
    pairs = list(evaluation_schedule(3, "a", ["x", "y", "z"], "b", 20, 1))
    assert [slot.specs for slot in pairs[::2]] == [slot.specs for slot in slots[::4]]


def run_cli(*words: str) -> int:
    return run(["eval", "cluedo", "--players", "3", "--max-turns", "6", *words])


def test_the_command_compares_verifies_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(json.dumps("Action: end turn") for _ in range(400)))
    out = tmp_path / "run"
    words = ["--player", f"scripted:{script}", "--scaffolds", "none, deductions", "--seed", "1",
             "--out", str(out), "--json"]  # fmt: skip
    assert run_cli(*words, "--games", "2") == 0
    report = Report.model_validate_json(capsys.readouterr().out)
    assert [player.player for player in report.players] == [
        f"scripted:{script}+none",
        f"scripted:{script}+deductions",
    ]
    assert report.settings["scaffolds"] == [player.player for player in report.players]
    assert run(["replay", "verify", str(out / "replays" / "game000001.jsonl")]) == 0
    capsys.readouterr()
    assert run_cli(*words, "--games", "3", "--resume") == 0
    report = Report.model_validate_json(capsys.readouterr().out)
    assert [player.games for player in report.players] == [3, 3]
    with Results.read(out) as results:
        stored = report_results(results)
    assert stored.comparisons == report.comparisons and stored.players == report.players


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scaffolds", "none,noteses"], "'noteses' is no scaffold; choose from: none, notes"),
        (["--scaffolds", "none"], "name two or more different ones"),
        (["--scaffolds", "none,none"], "name two or more different ones"),
        (["--scaffolds", ""], "'' is no scaffold"),
        (["--scaffolds", "none,notes", "--baseline", "bot:novice"], "leave out --baseline"),
        (["--scaffolds", "none,notes", "--until-ci", "0.1"], "leave out --until-ci"),
    ],
)
def test_bad_input_is_one_line(
    words: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("--player", "embedded:clue-tiny", *words) != 0
    output = capsys.readouterr()
    assert message in output.err and output.err.count("\n") == 1 and not output.out


def test_bots_and_models_with_a_scaffold_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("--player", "bot:oracle", "--scaffolds", "none,notes") != 0
    assert "bot:oracle is no model" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"leave out \+notes"):
        scaffolded("m+notes", "none,notes")
