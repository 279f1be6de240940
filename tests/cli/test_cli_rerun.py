"""`arena play` with `recorded:REPLAY`: the same game again, or a word about how to get it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from arena.cli import run
from arena.episodes.replay import Replay, read_replay


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A game in which a model sat that says the same thing again and again."""
    folder = tmp_path_factory.mktemp("recorded games")
    (folder / "replies.json").write_text(json.dumps(["end turn", "hmm"] * 400), encoding="utf-8")
    seats = f"--seat 0=bot:novice --seat '1=scripted:{folder}/replies.json'"
    how = "--text-level deductions --chat fresh --set max_attempts=2 --max-turns 12"
    words = f"play cluedo --players 3 --seed 5 --no-watch {seats} {how} --out '{folder}/out'"
    assert run(shlex.split(words)) == 0
    (path,) = folder.glob("out/*.jsonl")
    return path


def moves(replay: Replay) -> list[str]:
    return [move.action for move in replay.moves]


def complaint(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(shlex.split(words)) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    return said.err


def test_the_command_that_is_told_plays_the_game_again(
    game: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = complaint(f"play cluedo --seat '0=recorded:{game}'", capsys)
    wanted = "--players 3 --seed 5 --text-level deductions --chat fresh --set max_attempts=2"
    assert "it was played with --players 3 --seed " in told and wanted in told
    assert not list(tmp_path.iterdir())
    words = shlex.split(told.partition("the same again: arena ")[2])
    assert run([*words, "--no-watch"]) == 0
    (again,) = tmp_path.glob("runs/again/*.jsonl")
    assert moves(read_replay(again)) == moves(read_replay(game))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("cluedo --players 3 --seed 6", "it was played with --seed 5 --text-level deductions"),
        ("cluedo --players 3 --seed 5", "it was played with --text-level deductions --chat fresh"),
        ("cluedo --players 4 --seed 5", "it was played with --players 3"),
        ("cluedo --players 3 --seed 5 --guided", "no --guided"),
        ("tictactoe", "a game of cluedo; the same again: arena play cluedo"),
    ],
)
def test_another_game_is_refused_before_it_begins(
    game: Path, capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    said = complaint(f"play {words} --seat '0=recorded:{game}'", capsys)
    assert told in said and "--seat 0=bot:novice --seat '1=recorded:" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--games 2", "is one game; leave out --games"),
        ("--set beliefs=true", "has no answers about beliefs"),
        ("--out 'FOLDER'", "would be replaced: choose another folder with --out"),
    ],
)
def test_what_a_recording_cannot_do(
    game: Path, capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    how = "--players 3 --seed 5 --text-level deductions --chat fresh --set max_attempts=2"
    words = words.replace("FOLDER", str(game.parent))
    assert told in complaint(f"play cluedo {how} --seat '1=recorded:{game}' {words}", capsys)


def test_other_opponents_are_tried_and_the_difference_is_told(
    game: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = (
        "--players 3 --seed 5 --text-level deductions --chat fresh --set max_attempts=2 --no-watch"
    )
    words = f"play cluedo {how} --seat 0=bot:oracle --seat '1=recorded:{game}' --out '{tmp_path}'"
    assert run(shlex.split(words)) == 1
    said = capsys.readouterr().err
    assert "the replay does not contain this request; the nearest one was for ply " in said
    assert "it was played with seed 5, text level deductions, by bot:novice, scripted:" in said


def test_a_branch_is_played_again_from_its_parent(
    game: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"replay '{game}' --branch 4 --seed 9 --seat 1=bot:novice --out '{tmp_path}' --json"
    assert run(shlex.split(words)) == 0
    (branch,) = tmp_path.glob("*.jsonl")
    said = complaint(f"play cluedo --seat '1=recorded:{branch}'", capsys)
    assert f"arena replay {game.name} --branch 4 --seed 9 --seat 0=bot:novice" in said


def test_a_file_that_is_no_replay_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.jsonl").write_text("no\n", encoding="utf-8")
    assert "recorded: " in complaint(f"play cluedo --seat 0=recorded:{tmp_path}/x.jsonl", capsys)
