"""`arena replay branch`, as a user meets it."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from cluedo_server import start

from arena.agents.chat import THINKING_ROOM, ChatOptions
from arena.cli import run
from arena.cli.replay import BranchOptions, branch_chat_options
from arena.episodes.branch import position, turns_left
from arena.episodes.replay import read_replay, verify
from arena.llm.backend import Sampling
from arena.llm.config import SettingsLayer


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A game of the cards variant."""
    folder = tmp_path_factory.mktemp("parent")
    seats = "--seat 0=bot:novice --seat 1=bot:detective --seat 2=bot:novice"
    words = f"play cluedo -o variant=cards --players 3 --seed 4 --no-watch {seats} --out"
    assert run([*words.split(), str(folder)]) == 0
    (path,) = folder.glob("*.jsonl")
    return path


def told(
    capsys: pytest.CaptureFixture[str], parent: Path, words: str, *more: str, code: int = 0
) -> Any:
    """The JSON that the words print, or without `--json` what stands on stderr."""
    capsys.readouterr()
    command, *flags = words.split()
    assert run(["replay", command, str(parent), *flags, *more]) == code
    said = capsys.readouterr()
    return json.loads(said.out.splitlines()[-1]) if "--json" in words and not code else said


def test_several_games_from_one_position(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "branch --position 6 --seat 0=bot:oracle --games 3 --seed 20 --json --out"
    found = told(capsys, parent, words, str(tmp_path))
    assert [game["seed"] for game in found["games"]] == [20, 21, 22]
    assert found["ply"] == 6 and found["parent"] == str(parent)
    assert found["outcome"]["winner"] == winner_of(parent)
    for game in found["games"]:
        assert game["players"] == ["bot:oracle", "bot:detective", "bot:novice"]
        path = Path(game["replay"])
        assert path.name == f"{parent.stem}-branch6-seed{game['seed']}.jsonl"
        assert verify(read_replay(path)) is None


def test_a_branch_in_words(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(
        capsys, parent, "branch --position 6 --seat 0=bot:oracle --seed 2 --out", str(tmp_path)
    )
    (path,) = tmp_path.glob("*.jsonl")
    facts: list[list[str]] = [["was bot:novice"], [], []]
    facts[winner_of(parent)].append("won before")
    shown = [f" ({', '.join(each)})" if each else "" for each in facts]
    seats = [
        f"seat {seat} {spec}{shown[seat]} won {int(seat == winner_of(path))}"
        for seat, spec in enumerate(("bot:oracle", "bot:detective", "bot:novice"))
    ]
    assert f"{parent.name} played on from position 6, 1 game: {', '.join(seats)}\n" in said.out
    assert not said.err
    look = f"Look: arena replay {path}, or all: arena replay {tmp_path} --web"
    assert look in said.out
    again = told(capsys, path, "branch --position 9 --seed 3 --json --out", str(tmp_path))
    branch = read_replay(again["games"][0]["replay"])
    assert [b.parent for b in branch.header.branches] == [parent.name, path.name]
    said = told(capsys, parent, "branch --position 0 --seed 2 --out", str(tmp_path))
    assert "note: at position 0 no player has moved; the deal is drawn again" in said.err


def test_verify_takes_several_replays_and_folders(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, parent, "branch --position 6 --games 2 --seed 2 --json --out", str(tmp_path))
    said = told(capsys, parent, "verify", str(tmp_path)).out
    assert said.count(": verified, ") == 3 and "3 of 3 replays verified\n" in said
    forge(parent, tmp_path, seed=5)
    said = told(capsys, parent, "verify", str(tmp_path), code=1).out
    assert said.count("differs at") == 1 and "3 of 4 replays verified\n" in said
    (tmp_path / "a.jsonl").write_text('{"type": "header", "schema_version": 0}\n', encoding="utf-8")
    said = told(capsys, parent, "verify", str(tmp_path), code=1).out
    assert "written with replay schema 0" in said and "3 of 5 replays verified\n" in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("branch --position 9999", "the game is over there; choose --position 0 to"),
        ("branch --position 3 --seat 3=bot:novice", "has seats 0 to 2"),
        ("branch --position 3 --seat 0", "is not I=SPEC"),
        ("branch --position 3 --seat 0=bot:novice --seat 0=bot:oracle", "named twice"),
        ("branch --position 3 --seat 0=bot:nobody", "has no bot 'nobody'"),
        ("branch --position 3 --seat 0=nobody", "'nobody' does not name an agent"),
        ("branch --position 3 --seat 0=human --games 2", "one person plays one game"),
        ("branch --position 3 --temperature 0 --answers x", "--answers x"),
        (
            "branch --position 3 --seat 0=embedded:/nowhere --seat 1=bot:nobody",
            "has no bot 'nobody'",
        ),
        ("export --format parquet --out x.jsonl", "writes .parquet; name the file x.parquet"),
    ],
)
def test_wrong_usage(
    parent: Path, capsys: pytest.CaptureFixture[str], words: str, complaint: str
) -> None:
    said = told(capsys, parent, words, code=2)
    assert not said.out and complaint in said.err
    assert said.err.startswith("arena: ") and said.err.count("\n") == 1


@pytest.mark.parametrize(
    "spec",
    [
        "http://127.0.0.1:9/v1#m",
        "MyAgent",
        "openai:gpt-4o",
        "scripted:/etc/passwd",
        "embedded:/home/me/model",
        "embedded:folder",
        "human",
        "model",
        "x" * 5000,
    ],
)
def test_a_replay_does_not_say_whom_to_pay_nor_what_to_read(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: str
) -> None:
    """A key would be sent along, a file be read."""
    forged = forge(parent, tmp_path, players=[spec, "bot:detective", "bot:novice"])
    said = told(capsys, forged, "branch --position 3 --out", str(tmp_path / "out"), code=2)
    assert "seat 0 was played by" in said.err and "with --seat 0=SPEC" in said.err
    assert spec[:60] in said.err and len(said.err) < 600
    assert not (tmp_path / "out").exists()
    told(capsys, forged, "branch --position 3 --seat 0=bot:novice --json --out", str(tmp_path))


def winner_of(path: Path) -> int:
    """The seat that has won the game."""
    outcome = read_replay(path).outcome
    assert outcome is not None and outcome.winner is not None
    return outcome.winner


def forge(parent: Path, folder: Path, **fields: Any) -> Path:
    """The same game with another header."""
    header, *rest = parent.read_text(encoding="utf-8").splitlines()
    path = folder / "forged.jsonl"
    lines = [json.dumps(json.loads(header) | fields), *rest]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def options_of(path: Path, **flags: Any) -> BranchOptions:
    return BranchOptions.of_layers([SettingsLayer("flag", {"path": str(path), **flags})])


def test_a_replay_does_not_make_requests_expensive(parent: Path, tmp_path: Path) -> None:
    models = ChatOptions(
        max_attempts=20, beliefs=True, chat="fresh", sampling=Sampling(0.5, max_tokens=10**6)
    )
    forged = forge(parent, tmp_path, models=models.to_json(), max_turns=10**9)
    replay = read_replay(forged)
    asked = branch_chat_options(replay, options_of(forged))
    assert (asked.max_attempts, asked.beliefs, asked.sampling.max_tokens) == (3, False, 1024)
    assert (asked.chat, asked.sampling.temperature) == ("fresh", 0.5)  # These cost no more.
    asked = branch_chat_options(replay, options_of(forged, max_attempts=9, beliefs=True))
    assert (asked.max_attempts, asked.beliefs) == (9, True)
    game, start = replay.make_game(), position(replay, 6)
    usual, limit = game.default_max_turns, turns_left(replay, start, game)
    assert usual is not None and limit is not None and usual < limit < usual + 7


def test_a_replay_does_not_make_models_think(parent: Path, tmp_path: Path) -> None:
    thinking = Sampling(reasoning_effort="high")
    models = ChatOptions(sampling=thinking, thinking_room=10**6).to_json()
    forged = forge(parent, tmp_path, models=models)
    asked = branch_chat_options(read_replay(forged), options_of(forged))
    assert (asked.thinking_room, asked.sampling.asks_to_think) == (THINKING_ROOM, False)
    given = options_of(forged, reasoning_effort="low", prompt="brief")
    asked = branch_chat_options(read_replay(forged), given)
    assert asked.sampling.reasoning_effort == "low"
    assert asked.system is not None and "Actions look like" in asked.system


# Flags that would change nothing


def test_the_page_is_served_with_the_address_of_a_moment(parent: Path, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    serving = start(f"replay {parent} --web --port 0 --position 4 --seat 1", tmp_path)
    assert serving.stdout is not None
    line = serving.stdout.readline()
    serving.send_signal(signal.SIGINT)
    serving.communicate(timeout=60)
    assert re.search(r"open http://127\.0\.0\.1:\d+/#at=4&seat=1 in a browser", line)
    assert serving.returncode == 0


# What a file says to the terminal


HOSTILE = "\x1b]0;owned\x07\x1b[2J"


def test_no_file_steers_the_terminal(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / f"folder{HOSTILE}"
    folder.mkdir()
    path = forge(parent, folder, game=HOSTILE)
    strange = tmp_path / f"strange{HOSTILE}.jsonl"
    lines = parent.read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines) if '"type":"decision"' in line)
    lines[number] = json.dumps(json.loads(lines[number]) | {"action": f"end {HOSTILE} turn"})
    strange.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for given, words in (
        (path, "verify"),
        (path, "view --position 1"),
        (strange, "verify"),
        (strange, "branch --position 2"),
        (folder, "export --out " + str(tmp_path / "out")),
        (folder, "view"),
    ):
        capsys.readouterr()
        command, *flags = words.split()
        assert run(["replay", command, str(given), *flags]) in (1, 2)
        said = capsys.readouterr()
        assert (said.out + said.err).strip() and "\x1b" not in said.out + said.err
        assert "\x07" not in said.out + said.err
