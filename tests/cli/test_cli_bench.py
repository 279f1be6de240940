"""`arena bench`, as a user meets it."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from command_line import arena, started
from misbehaving import Misbehaving
from test_cli_measuring import wait_for_games

from arena import load_run
from arena.cli import run

NOVICE = "bot:novice"


def task(name: str, players: int, deals: int, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "skill": "deduction",
        "game": "cluedo",
        "against": [NOVICE],
        "baseline": NOVICE,
    }
    fields |= {"options": {"players": players}, "deals": deals, **more}
    # Tasks share no deals.
    return {"id": name, "seed": sum(map(ord, name)), **fields}


def write_suite(path: Path, *tasks: dict[str, Any]) -> Path:
    fields = {"name": "small", "version": 1, "about": "Cluedo.", "max_attempts": 3}
    path.write_text(json.dumps({**fields, "tasks": tasks}), encoding="utf-8")
    return path


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path / "s.json", task("two", 2, 3), task("three", 3, 2))


def bench(*words: str | Path) -> int:
    """Run `arena bench` in this process; return its exit code."""
    return run(["bench", *map(str, words)])


def test_without_a_suite_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench() == 0
    assert "mini 2: Cluedo" in capsys.readouterr().out
    assert bench("--json") == 0
    suites = json.loads(capsys.readouterr().out)["suites"]
    assert {"mini", "deception"} <= {each["name"] for each in suites}


def test_a_player_gets_one_report_with_a_section_for_each_task(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = (suite, "--player", "bot:detective", "--executor", "local", "--out", out)
    assert bench(*words, "--csv", tmp_path / "all.csv") == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines()[0].startswith("two: bot:detective ")
    assert "three" in printed.out and str(out) in printed.out
    page = (out / "report.html").read_text()
    assert "small 1 · bot:detective" in page and "three</h2>" in page
    assert len((tmp_path / "all.csv").read_text().splitlines()) > 20
    # Each task is an ordinary evaluation.
    games = load_run(out / "two")
    assert len(set(games["game"])) == 6 and "efficiency_early" in games
    assert bench(*words) == 1
    assert "exists; resume it" in capsys.readouterr().err
    assert bench(*words, "--resume", "--json") == 0
    reports = json.loads(capsys.readouterr().out)["reports"]
    assert [each["settings"]["task"] for each in reports] == ["two", "three"]
    assert all(each["comparison"]["baseline"] == NOVICE for each in reports)


def test_a_killed_run_continues_to_the_same_results(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "s.json", task("one", 2, 2), task("other", 3, 5))
    words = f"bench {suite} --player bot:detective --executor local --json --out"
    process = started(f"{words} killed", tmp_path)
    wait_for_games(process, tmp_path / "killed" / "other", 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    resumed = arena(f"{words} killed --resume", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    whole = arena(f"{words} whole", cwd=tmp_path)
    assert resumed.stdout.replace("killed/", "whole/") == whole.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("nonsense --player bot:novice", 2, "known: clue-bench"),
        ("{suite}", 2, "--player SPEC"),
        ("{suite} --player bot:nobody", 2, "no bot 'nobody'"),
        ("{suite} --player human", 2, "people are not measured"),
        ("{suite} --player bot:novice --set max_attempts=5", 2, "3 attempts per decision"),
        ("{suite} --player bot:novice --resume --out nowhere", 2, "has no run of small 1"),
    ],
)
def test_wrong_input_is_one_clear_line(
    words: str,
    code: int,
    message: str,
    suite: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bench(*words.format(suite=suite).split()) == code
    errors = capsys.readouterr().err
    assert message in errors.splitlines()[-1] and "Traceback" not in errors


def test_a_player_that_does_not_answer_is_no_success(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with Misbehaving(fail_rate=1, faults=["unauthorized"]) as server:
        player = f"{server.openai_url}#m"
        assert bench(suite, "--player", player, "--out", out) == 1
    errors = capsys.readouterr().err
    assert "answered 401" in errors and "Traceback" not in errors
    assert f"--resume --out {out} continues" in errors


def test_a_run_of_another_version_is_not_continued(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (suite, "--player", NOVICE, "--executor", "local", "--out", tmp_path / "run")
    assert bench(*words) == 0
    suite.write_text(suite.read_text().replace('"version": 1', '"version": 2'))
    assert bench(*words, "--resume") == 2
    assert "was made with suite_version = 1" in capsys.readouterr().err


def test_a_player_without_a_move_of_its_own_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = write_suite(tmp_path / "s.json", task("one", 2, 2, max_turns=6))
    script = tmp_path / "replies.json"
    script.write_text('"nonsense"\n' * 200)
    model = ("--player", f"scripted:{script}", "--set", "max_fallbacks=0")
    for name, player in (("model", model), ("program", ("--player", "agent:false"))):
        words = (suite, *player, "--executor", "local", "--out", tmp_path / name)
        assert bench(*words) == 1
        assert "made no legal move: this is not a measurement" in capsys.readouterr().err


def test_a_task_stops_at_its_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = write_suite(tmp_path / "s.json", task("stop", 2, 40, target=0.4))
    words = (suite, "--player", NOVICE, "--executor", "local", "--out", tmp_path / "run")
    assert bench(*words, "--json") == 0
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert report["games"] < 40 and report["sequential"]["reached"]


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, out = [task("one", 2, 2), task("two", 3, 2)], tmp_path / "run"
    suite = write_suite(tmp_path / "s.json", *tasks)
    assert bench(suite, "--player", "openai:gpt-4o-mini", "--dry-run", "--out", out) == 0
    text = capsys.readouterr().out
    assert {"one", "two"} <= set(text.split())
    one, two, both = map(int, re.findall(r"openai:gpt-4o-mini +(\d+) ", text))
    assert one + two == both, "the last table is the sum of the tasks"
    assert not out.exists()
