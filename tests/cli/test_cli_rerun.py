"""`arena play` with `recorded:REPLAY`: the same game again, or the difference."""

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


HOW = "--players 3 --seed 5 --text-level deductions --chat fresh --set max_attempts=2 --no-watch"


def test_the_flags_of_the_game_play_it_again(game: Path, tmp_path: Path) -> None:
    seats = f"--seat 0=bot:novice --seat '1=recorded:{game}'"
    words = f"play cluedo {HOW} --max-turns 12 {seats} --out '{tmp_path}'"
    assert run(shlex.split(words)) == 0
    (again,) = tmp_path.glob("*.jsonl")
    assert moves(read_replay(again)) == moves(read_replay(game))


@pytest.mark.parametrize(
    "words",
    [
        "cluedo --players 3 --seed 6 --text-level deductions --chat fresh",
        "cluedo --players 3 --seed 5 --text-level notes --chat fresh",
        "cluedo --players 4 --seed 5 --text-level deductions --chat fresh",
        "tictactoe",
    ],
)
def test_another_game_ends_with_the_set_up_of_the_recorded_one(
    game: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    seats = f"--seat '1=recorded:{game}' --no-watch --out '{tmp_path}'"
    assert run(shlex.split(f"play {words} {seats}")) == 1
    said = capsys.readouterr().err
    assert "it was played with seed 5, text level deductions, by bot:novice, scripted:" in said
    assert "give the flags of that game" in said and "Traceback" not in said


def test_other_opponents_are_tried_and_the_difference_is_told(
    game: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"play cluedo {HOW} --seat 0=bot:oracle --seat '1=recorded:{game}' --out '{tmp_path}'"
    assert run(shlex.split(words)) == 1
    said = capsys.readouterr().err
    assert "the replay does not contain this request; the nearest one was for ply " in said
    assert "it was played with seed 5, text level deductions, by bot:novice, scripted:" in said


def test_a_file_that_is_no_replay_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.jsonl").write_text("no\n", encoding="utf-8")
    assert run(shlex.split(f"play cluedo --seat 0=recorded:{tmp_path}/x.jsonl")) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1 and "recorded: " in said.err
