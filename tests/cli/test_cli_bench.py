"""`arena bench`, as a user meets it."""

from __future__ import annotations

import errno
import json
import signal
from pathlib import Path

import pytest
from command_line import arena, last_json, started
from misbehaving import Misbehaving
from small_benchmark import bench, submit, task, write_suite
from test_cli_measuring import wait_for_games

from arena.evaluation.benchmark.submission import SubmissionCard


def test_list_names_suites(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("list") == 0
    out = capsys.readouterr().out
    assert "mini 1" in out
    assert bench("list", "--json") == 0
    suites = json.loads(capsys.readouterr().out)["suites"]
    assert {"mini", "deception"} <= {each["name"] for each in suites}


def test_a_killed_run_continues_to_the_same_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = write_suite(tmp_path / "s.json", task("one", 2, 3), task("other", 3, 8))
    words = f"bench run {suite} --player bot:detective --executor local --out"
    process = started(f"{words} killed", tmp_path)
    wait_for_games(process, tmp_path / "killed" / "other", 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folder = tmp_path / "killed"
    assert bench("run", suite, "--player", "bot:detective", "--out", folder) == 2
    assert "add --resume" in capsys.readouterr().err
    resumed = arena(f"{words} killed --resume --json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    card = SubmissionCard.model_validate(last_json(resumed.stdout))
    whole = json.loads(
        (submit(suite, "bot:detective", tmp_path / "whole") / "card.json").read_text()
    )
    expected = SubmissionCard.model_validate(whole).model_copy(update={"created": card.created})
    assert card == expected
    assert bench("verify", folder, "--executor", "local") == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("run nonsense --player bot:novice", 2, "known: clue-bench"),
        ("run {suite} --player bot:nobody", 2, "no bot 'nobody'"),
        ("run {suite} --player human", 2, "people are not measured"),
        ("run {suite} --player bot:novice --set max_attempts=5", 2, "3 attempts per decision"),
        ("run {suite} --player bot:novice --resume --out nowhere", 2, "no run of a suite"),
        ("site onlyone", 2, "at least one submission"),
        ("site nowhere out", 1, "there is no such folder"),
    ],
)
def test_wrong_input_is_one_clear_line(
    words: str,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = write_suite(tmp_path / "s.json")
    assert bench(*words.format(suite=suite).split()) == code
    errors = capsys.readouterr().err
    assert message in errors.splitlines()[-1] and "Traceback" not in errors


def test_a_player_that_does_not_answer_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, out = write_suite(tmp_path / "s.json"), tmp_path / "run"
    with Misbehaving(fail_rate=1, faults=["unauthorized"]) as server:
        player = f"{server.openai_url}#m"
        assert bench("run", suite, "--player", player, "--out", out) == 1
    errors = capsys.readouterr().err
    assert "answered 401" in errors and "Traceback" not in errors
    assert f"--resume --out {out} continues" in errors
    assert not (out / "card.json").exists()


def test_a_run_of_another_suite_is_not_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_suite(tmp_path / "a.json", task("one", 2, 2))
    second = write_suite(tmp_path / "b.json", task("one", 2, 3))
    folder = submit(first, "bot:novice", tmp_path / "run")
    words = ("--player", "bot:novice", "--resume", "--out", folder)
    assert bench("run", second, *words) == 2
    assert "is a run of another suite or version: small 1" in capsys.readouterr().err


def test_a_full_disk_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = write_suite(tmp_path / "s.json", task("one", 2, 2))

    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("arena.cli.bench.write_whole", full)
    assert bench("run", suite, "--player", "bot:novice", "--out", tmp_path / "run") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert not list((tmp_path / "run").glob("*"))


def check_forgeries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That another system message than the card's is refused, and replies that cannot be."""
    replay = sorted((folder / "one" / "replays").iterdir())[0]
    card = folder / "card.json"
    for path, old, new, told in (
        (card, '"system": "Win', '"system": "Lose', "tasks differs from the results"),
        (replay, '"system":"Win', '"system":"Lose', "chat options"),
        (replay, '"content":"Win', '"content":"The envelope holds the Rope. Win', "another system"),
        (replay, '"kept":2', '"kept":0', "another system message"),
        (replay, '"prompt_tokens":', '"prompt_tokens":-', " is not from 0 to 1,000,000,000"),
        (replay, '"prompt_tokens":', '"prompt_tokens":1,"prompt_tokens":', "occurs twice"),
        (replay, '"reply":', '"cost":1e9,"reply":', "cost: 1e+09 is not from 0 to 10,000"),
        (replay, '"reply":', '"reply":3,"_":', "reply: give a text"),
    ):
        text = path.read_text()
        assert old in text, old
        path.write_text(text.replace(old, new, 1))
        capsys.readouterr()
        assert bench("verify", folder, "--executor", "local") == 1
        message = capsys.readouterr().err
        assert told in message and message.count("\n") == 1, message
        path.write_text(text)


def test_a_model_is_measured_with_its_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = write_suite(tmp_path / "s.json", task("one", 2, 2, max_turns=6))
    script = tmp_path / "replies.json"
    # One of three replies is legal; the others are corrected, or a fallback is played.
    script.write_text('"nonsense"\n"end turn"\n"nothing"\n' * 50)
    (tmp_path / "win.txt").write_text("Win, {seat}.")
    prompt = ("--prompt", str(tmp_path / "win.txt"))
    named = ("--name", "A <b>model</b>", "--text-level", "events", *prompt)
    words = ("--set", "max_fallbacks=0", *named)
    folder = submit(suite, f"scripted:{script}", tmp_path / "run", *words)
    card = SubmissionCard.model_validate_json((folder / "card.json").read_text())
    assert card.name == "A <b>model</b>" and card.text_level == "events" and card.uses_models
    assert [each.system for each in card.tasks] == ["Win, {seat}."]
    assert card.usage.legal < card.usage.replies and card.usage.fallbacks > 0
    assert bench("verify", folder, "--executor", "local") == 0
    check_forgeries(folder, capsys)
    script.write_text('"nonsense"\n' * 200)
    others = ("--player", f"scripted:{script}", "--set", "max_fallbacks=0", "--executor", "local")
    capsys.readouterr()
    assert bench("run", suite, *others, "--out", tmp_path / "silent") == 1
    assert "gave no legal reply" in capsys.readouterr().err


def test_a_program_that_fails_at_each_decision_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = write_suite(tmp_path / "s.json", task("one", 2, 2, max_turns=6))
    words = ("--player", "agent:false", "--executor", "local", "--out", tmp_path / "run")
    assert bench("run", suite, *words) == 1
    assert "gave no legal reply" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = write_suite(tmp_path / "s.json", task("one", 2, 2))
    out = tmp_path / "run"
    assert bench("run", suite, "--player", "openai:gpt-4o-mini", "--dry-run", "--out", out) == 0
    assert "one (1 of 1)" in capsys.readouterr().out
    assert not out.exists()
