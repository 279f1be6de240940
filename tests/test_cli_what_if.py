"""`arena replay --branch` and `--ask`, as a user meets them."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from cluedo_server import legal_answer, start, wait_until
from misbehaving import Misbehaving

from arena.cli import run
from arena.replay import read_replay, verify


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A game of the cards variant."""
    folder = tmp_path_factory.mktemp("parent")
    seats = "--seat 0=bot:novice --seat 1=bot:detective --seat 2=bot:novice"
    words = f"play cluedo --variant cards --players 3 --seed 4 --no-watch {seats} --out"
    assert run([*words.split(), str(folder)]) == 0
    (path,) = folder.glob("*.jsonl")
    return path


def told(
    capsys: pytest.CaptureFixture[str], parent: Path, words: str, *more: str, code: int = 0
) -> Any:
    """The JSON that the words print, or without `--json` what stands on stderr."""
    capsys.readouterr()
    assert run(["replay", str(parent), *words.split(), *more]) == code
    said = capsys.readouterr()
    return json.loads(said.out.splitlines()[-1]) if "--json" in words and not code else said


def test_several_games_from_one_position(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--branch 6 --seat 0=bot:oracle --games 3 --seed 20 --json --out"
    found = told(capsys, parent, words, str(tmp_path))
    assert [game["seed"] for game in found["games"]] == [20, 21, 22]
    assert found["ply"] == 6 and found["parent"] == str(parent)
    first, second, _ = found["seats"]
    assert (first["player"], first["player_before"]) == ("bot:oracle", "bot:novice")
    assert second["player"] == second["player_before"] == "bot:detective"
    assert sum(seat["won"] for seat in found["seats"]) <= 3
    for seat in found["seats"]:
        assert seat["games"] == 3 and seat["win_rate"]["low"] <= seat["won"] / 3
        assert seat["won_before"] == (found["outcome"]["winner"] == seat["seat"])
    for game in found["games"]:
        path = Path(game["replay"])
        assert path.name == f"{parent.stem}-branch6-seed{game['seed']}.jsonl"
        assert verify(read_replay(path)) is None


def test_a_branch_in_words(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(capsys, parent, "--branch 6 --seat 0=bot:oracle --seed 2 --out", str(tmp_path))
    (path,) = tmp_path.glob("*.jsonl")
    assert f"{parent.name} played on from ply 6: 1 game, seed 2" in said.out
    assert "bot:oracle (was bot:novice)" in said.out and not said.err
    look = f"Look: arena replay {path}, or all: arena replay {tmp_path} --web"
    assert look in said.out
    again = told(capsys, path, "--branch 9 --seed 3 --json --out", str(tmp_path))
    branch = read_replay(again["games"][0]["replay"])
    assert [b.parent for b in branch.header.branches] == [parent.name, path.name]
    said = told(capsys, parent, "--branch 0 --seed 2 --out", str(tmp_path))
    assert "note: at ply 0 nobody has moved; it is dealt anew" in said.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--branch 9999", "the game is over there; choose --branch 0 to"),
        ("--branch 3 --seat 3=bot:novice", "has seats 0 to 2"),
        ("--branch 3 --seat 0", "is not I=SPEC"),
        ("--branch 3 --seat 0=bot:novice --seat 0=bot:oracle", "named twice"),
        ("--branch 3 --seat 0=bot:nobody", "has no bot 'nobody'"),
        ("--branch 3 --seat 0=nobody", "'nobody' names no player"),
        ("--branch 3 --seat 0=human --games 2", "one person plays one game"),
        ("--branch 3 --temperature 0 --answers x", "--answers 'x'"),
        ("--ask bot:nobody", "has no bot 'nobody'"),
        ("--ask nobody", "'nobody' names no player"),
        ("--ask bot:novice --seat 3", "0 to 2"),
        ("--ask bot:novice --seat 0=bot:novice", "0 to 2"),
        ("--ask bot:novice --out x", "--ask writes no file"),
    ],
)
def test_wrong_usage(
    parent: Path, capsys: pytest.CaptureFixture[str], words: str, complaint: str
) -> None:
    said = told(capsys, parent, words, code=2)
    assert not said.out and complaint in said.err
    assert said.err.startswith("arena: ") and said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [("http://127.0.0.1:9/v1#m", "does not choose a server"), ("MyAgent", "is no SPEC")],
)
def test_a_replay_does_not_say_where_requests_go(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: str, complaint: str
) -> None:
    """A key would be sent along."""
    forged = tmp_path / "forged.jsonl"
    text = parent.read_text(encoding="utf-8")
    forged.write_text(text.replace('"players":["bot:novice"', f'"players":["{spec}"', 1), "utf-8")
    said = told(capsys, forged, "--branch 3", code=2)
    assert complaint in said.err and "--seat 0=SPEC" in said.err
    told(capsys, forged, "--branch 3 --seat 0=bot:novice --json --out", str(tmp_path))


def test_asking_somebody_else(parent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, parent, "--ask bot:oracle --seat 0 --json")
    decisions = found["decisions"]
    assert found["asked"] == "bot:oracle" and found["seats"] == [0]
    assert found["answers"] == found["questions"] == len(decisions) > 2
    assert found["same"] == sum(each["same"] for each in decisions)
    assert found["agreement"]["value"] == pytest.approx(found["same"] / len(decisions), abs=1e-6)
    assert {each["player"] for each in decisions} == {0}
    questions = [each for each in decisions if "expected" in each["of_said"]]
    assert questions
    for each in questions:
        assert each["of_said"]["expected"] == pytest.approx(each["of_said"]["best"])
    means = found["means"]["expected"]
    assert means["said"] >= means["played"] > 0
    assert told(capsys, parent, "--ask bot:oracle --seat 0 --json") == found


def test_an_opinion_in_words(
    parent: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = told(capsys, parent, "--ask bot:oracle")
    assert "bot:oracle says" in said.out and re.search(r"expected \d\.\d\d, best \d", said.out)
    assert re.search(r"the same at \d+ of \d+ decisions: \d+% \(\d+% to \d+%\)", said.out)
    assert re.search(r"^ expected +\S+ +\S+ +\d+", said.out, re.MULTILINE)


def test_a_model_is_asked_and_paid_for(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = tmp_path / "replies.json"
    replies.write_text(json.dumps(["end turn", "hmm", "hmm", "hmm"] * 200), encoding="utf-8")
    words = f"--ask scripted:{replies} --seat 1 --at-once 1"
    assert run(["replay", str(parent), *words.split(), "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out.splitlines()[-1])
    assert found["failures"] > 0 and "gave no legal reply" in said.err
    failed = [each for each in found["decisions"] if each["failure"]]
    assert len(failed) == found["failures"]
    assert all(each["said"] is None and not each["same"] for each in failed)
    assert found["ledger"]["total"]["calls"] > len(found["decisions"])
    said = told(capsys, parent, f"{words} --max-tokens 3000", code=1)
    assert "more than --max-tokens 3000 leaves" in said.err and "calls" in said.err
    assert "decisions were asked about" in said.err and "would have played" in said.out
    assert not list(tmp_path.glob("**/*.ledger.json"))


@pytest.mark.parametrize(
    ("words", "answered"),
    [("--ask {spec}", 20), ("--branch 1 --seat 0={spec} --games 30 --out out", 120)],
)
def test_ctrl_c_keeps_what_there_is(
    parent: Path, tmp_path: Path, words: str, answered: int
) -> None:
    with Misbehaving(legal_answer) as server:
        server.script(["ok"] * answered + ["hang"] * 1000)
        command = words.format(spec=f"{server.openai_url}#tiny")
        asking = start(f"replay {parent} {command} --at-once 3 --json", tmp_path)
        wait_until(lambda: server.ledger.behaviours["hang"] or asking.poll() is not None)
        asking.send_signal(signal.SIGINT)
        stdout, _ = asking.communicate(timeout=20)
    said = (tmp_path / "stderr").read_text()
    assert asking.returncode == 130 and "Traceback" not in said, said
    found = json.loads(stdout)
    if "--ask" in words:
        assert 0 < found["answers"] == len(found["decisions"]) < found["questions"]
    else:
        assert 0 < len(found["games"]) < 30 and "Interrupted: " in said
        assert all(verify(read_replay(tmp_path / g["replay"])) is None for g in found["games"])
