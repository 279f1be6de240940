"""The command line, as a user meets it: real processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from command_line import ENVIRONMENT, arena, last_json
from preloaded import arena_command

from arena.cli import main, run
from arena.plugins.catalog import catalog


def test_one_game_as_json(tmp_path: Path) -> None:
    done = arena(
        "play", "cluedo", "--seed", "7", "--players", "3", "--no-watch", "--json", cwd=tmp_path
    )
    assert done.returncode == 0 and not done.stderr
    result = last_json(done.stdout)
    assert list(result) == [
        "game",
        "variant",
        "seed",
        "players",
        "winner",
        "winners",
        "returns",
        "turns",
        "decisions",
        "outcome",
        "replay",
    ]
    assert result["players"] == ["bot:detective"] * 3
    assert result["outcome"] == "terminated"
    assert (tmp_path / str(result["replay"])).exists()


def test_flags_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARENA_PLAY_OUT", str(tmp_path / "there"))
    assert run(["play", "kuhn_poker", "--seed", "1", "--json"]) == 0
    assert last_json(capsys.readouterr().out)["replay"].startswith(str(tmp_path / "there"))  # type: ignore[attr-defined]
    monkeypatch.setenv("ARENA_PLAY_GAMES", "none")
    assert run(["play", "kuhn_poker"]) == 2


def test_flags_may_come_from_dotenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARENA_PLAY_GAMES", "1")
    monkeypatch.setenv("ARENA_PLAY_OUT", "")
    Path(".env").write_text("ARENA_PLAY_OUT=there\nARENA_PLAY_GAMES=none\nARENA_API_KEY=sk-1\n")
    assert run(["play", "kuhn_poker", "--seed", "1", "--json"]) == 0
    assert last_json(capsys.readouterr().out)["replay"].startswith("there")  # type: ignore[attr-defined]
    assert "sk-1" not in os.environ.values()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("play chess", 2, "there is no game 'chess'"),
        ("play clued", 2, "did you mean 'cluedo'?"),
        ("play cluedo --players 9", 2, "option players=9"),
        ("play cluedo -o variant=clasic", 2, "did you mean 'classic'? choose cards or classic"),
        ("play werewolf -o talk=9", 2, "choose 0, 1 or statements"),
        ("play tictactoe -o variant=big", 2, "tictactoe has no option 'variant'"),
        ("play cluedo --option colour=red", 2, "cluedo has no option 'colour'"),
        ("play cluedo --option colour", 2, "is not NAME=VALUE"),
        ("play cluedo --seat 4=bot:novice", 2, "cluedo has seats 0 to 3"),
        ("play cluedo --seat x", 2, "is not I=SPEC"),
        ("play cluedo --seat ²=bot:oracle", 2, "is not I=SPEC"),
        ("play cluedo --seat 0=bot:oracle --seat 0=bot:novice", 2, "named twice"),
        ("play cluedo --option players=3 --players 4", 2, "are mutually exclusive"),
        ("play cluedo --option name=x", 2, "has no option 'name'"),
        ("play cluedo --option self=1", 2, "has no option 'self'"),
        ("play cluedo --games 99999999999999999999", 2, "--games"),
        ("play cluedo --seed 99999999999999999999", 2, "--seed"),
        ("play cluedo --seat -1=bot:novice", 2, "is not I=SPEC"),
        ("play cluedo --seat 0=bot:orcale", 2, "has no bot 'orcale'; did you mean 'oracle'?"),
        ("play cluedo --seat 0=martian", 2, "'martian' does not name an agent"),
        ("play cluedo --seed -1", 2, "--seed"),
        ("play cluedo --seed x", 2, "--seed"),
        ("play cluedo --games 0", 2, "--games"),
        ("play cluedo --games 3 --seat 0=human", 2, "one game at a time"),
        ("play cluedo --set delay=-1", 2, "--set delay=-1"),
        ("play cluedo --text-level some", 2, "choose events, notes or deductions"),
        ("play cluedo --nonsense", 2, "--nonsense"),
        ("play", 2, "name a game, e.g. arena play cluedo"),
        ("fly", 2, "fly"),
        ("play cluedo --out FILE", 2, "is not a folder"),
        ("play cluedo --web --out FILE", 2, "is not a folder"),
        ("play cluedo --out /proc/nowhere", 1, "cannot write"),
        ("eval cluedo --player bot:novice --out FILE/x", 2, "is not a folder"),
        ("bench mini --player bot:novice --out FILE/x", 2, "--out FILE/x: "),
        ("pretrain cluedo --out FILE/x", 2, "is not a folder"),
        ("replay missing.jsonl", 2, "missing.jsonl: there is no such file or folder"),
        ("replay missing.jsonl --web", 2, "missing.jsonl: there is no such file or folder"),
        ("replay branch missing.jsonl", 2, "missing.jsonl: there is no such file or folder"),
        ("replay verify missing.jsonl", 2, "missing.jsonl: there is no such file or folder"),
        ("bench missing.json --player bot:novice", 2, "there is no such file or folder"),
        ("replay FILE", 1, "this is not a replay"),
        ("replay export FILE", 1, "FILE"),
        ("replay FILE --web", 1, "this is not a replay"),
        ("replay", 2, "Missing argument 'path'"),
        ("list games chess", 2, "there is no game 'chess'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("no folder\n", encoding="utf-8")
    assert run(arguments.split()) == code
    output = capsys.readouterr()
    assert not output.out
    assert output.err.count("\n") == 1 and message in output.err
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


def test_ctrl_c_in_any_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("backends.embedded.bundled_checkpoints", interrupt)
    assert run(["list", "models"]) == 130
    assert capsys.readouterr().err == "arena: interrupted\n"


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("list models", "backends.embedded.bundled_checkpoints"),
        ("play kuhn_poker", "arena.cli.play.seat_specs"),
        ("eval kuhn_poker --player bot:random", "arena.evaluation.schedule.evaluation_schedule"),
    ],
)
def test_any_other_error_is_one_line_too(
    command: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def fail(*_: object, **__: object) -> None:
        raise ExceptionGroup("of a task group", [ZeroDivisionError("one\ntwo")])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(place, fail)
    line = "arena: unexpected ZeroDivisionError: one two; 'arena --debug COMMAND' shows where"
    assert run(command.split()) == 1
    assert capsys.readouterr().err == f"{line} it comes from\n"
    monkeypatch.setenv("ARENA_DEBUG", "0")  # Restored afterwards: the flag sets it.
    assert run(["--debug", *command.split()]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown and "in fail" in shown and line in shown


@pytest.mark.parametrize(
    ("command", "encoding", "words"),
    [
        ("doctor", "latin-1", "arena "),
        ("eval kuhn_poker --player bot:equilibrium --games 4 --seed 1 --out x", "cp1252", " -"),
        ("play kuhn_poker --seed 1 --watch", "cp932", "Replay: "),
        ("play \ud800−", "ascii", "there is no game '?-'"),
        ("play \ud800−", "utf-8", "there is no game '?−'"),
    ],
)
def test_an_output_of_any_encoding_gets_the_nearest_characters(
    command: str, encoding: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe or a terminal may have no minus sign, and no encoding has half of an emoji."""
    output = BytesIO()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("arena.cli.stop_as_ctrl_c", list)
    monkeypatch.setattr("sys.argv", ["arena", *command.split()])
    for name, errors in (("stdout", "strict"), ("stderr", "backslashreplace")):
        stream = TextIOWrapper(output, encoding, errors=errors, write_through=True)
        monkeypatch.setattr(f"sys.{name}", stream)
    with pytest.raises(SystemExit) as end:
        main()
    text = output.getvalue().decode(encoding)
    assert "Traceback" not in text and "can't encode" not in text
    assert words in text
    assert end.value.code == (2 if words.startswith("there") else 0)


def test_executors_that_cannot_be_are_refused_in_one_line(tmp_path: Path) -> None:
    for flags, reason in {
        "--executor cluster": "--executor cluster: choose local, processes or ray",
        "--executor local --workers 2": "--workers 2: --executor local has one worker",
        "--set address=HOST": "address=HOST needs --executor ray",
    }.items():
        command = f"eval kuhn_poker --player bot:random --games 2 {flags}"
        ended = arena(command, cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith(f"arena: {reason}") and ended.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_replay_as_one_seat_saw_it(tmp_path: Path) -> None:
    done = arena("play cluedo --seed 3 --players 3 --json", cwd=tmp_path)
    path = str(last_json(done.stdout)["replay"])
    full = arena("replay", path, cwd=tmp_path).stdout
    mine = arena("replay", path, "--seat", "1", cwd=tmp_path).stdout
    assert full.count(" holds ") == 3 and mine.count(" holds ") == 1
    position = arena("replay", path, "--position", "4", cwd=tmp_path)
    assert position.returncode == 0 and "ply 4/" in position.stdout
    beyond = arena("replay", path, "--position", "4000", cwd=tmp_path)
    assert beyond.returncode == 2 and "plies" in beyond.stderr


@pytest.mark.parametrize("spelling", ["human", "human:"])
def test_a_person_plays_on_a_pipe_and_sees_only_its_own(spelling: str, tmp_path: Path) -> None:
    done = arena(
        f"play cluedo --players 3 --seed 2 --seat 0={spelling} --max-turns 1",
        cwd=tmp_path,
        typed="help\nshow me\nsuggest rope\nsuggest mrs white, rope, hall\nend\n",
    )
    assert done.returncode == 0, done.stderr
    assert "'show me' is not allowed now" in done.stdout
    assert "Name the suspect and the room too." in done.stdout
    assert "One suspect, one weapon and one room" in done.stdout
    assert "You are Player 1." in done.stdout and "Player 1 holds" in done.stdout
    assert "Detective 1 holds" not in done.stdout and "Detective 2 holds" not in done.stdout
    assert "No result: stopped after 1 turns." in done.stdout


def test_a_person_who_hangs_up_leaves_the_game_unfinished(tmp_path: Path) -> None:
    done = arena("play cluedo --seed 2 --seat 0=human", cwd=tmp_path)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "runs" / "play").glob("*.part"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["list games", "play cluedo --players 3 --seed 1 --watch"])
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path, command: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "arena", *command.split()],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "arena: cannot write the output: No space left on device\n"


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "games", "--json"]) == 0
    games = json.loads(capsys.readouterr().out)["games"]
    assert {"cluedo", "tictactoe", "kuhn_poker", "goofspiel"} <= {g["name"] for g in games}
    assert run(["list", "games", "cluedo"]) == 0
    assert "variant = 'cards'  (cards, classic)" in capsys.readouterr().out
    assert run(["list", "games", "cluedo:players=4"]) == 0
    assert "Cluedo, 4 players" in capsys.readouterr().out
    for more in ([], ["--json"]):
        assert run(["list", "games", "cluedo:players=40", *more]) == 2
        assert "option players=40" in capsys.readouterr().err
    assert run(["list", "agents"]) == 0
    listed = capsys.readouterr().out
    assert "bot:oracle" in listed
    (line,) = [line for line in listed.split("\n") if line.startswith("bot:random")]
    assert "every game" in line and "(cluedo: " in line
    assert run(["list", "agents", "--json"]) == 0
    bots = json.loads(capsys.readouterr().out)["bots"]
    assert [bot["game"] for bot in bots if bot["spec"] == "bot:random"] == ["every game"]


def test_each_game_has_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["list", "games"]) == 0
    heading, *lines = capsys.readouterr().out.split("\n\n")[0].split("\n")
    assert heading.split() == ["game", "players"]
    games = [*catalog().names("game"), *(f"{f}/GAME" for f in catalog().names("game_family"))]
    assert [line.split()[0] for line in lines] == games
    assert re.match(r"cluedo +2-6 +who did it", lines[0])


def test_a_broken_plugin_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('a bad\\nday')", "utf-8")
    package = tmp_path / "broken-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[arena]\nbroken = broken:register\n")
    path = f"{tmp_path}{os.pathsep}{ENVIRONMENT.get('PYTHONPATH', '')}"
    for command in ("list agents", "eval kuhn_poker --player bot:random --games 4 --workers 2"):
        done = subprocess.run(
            [*arena_command(), *command.split()],
            cwd=tmp_path,
            env={**ENVIRONMENT, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        (line,) = done.stderr.splitlines()
        assert line.startswith("arena: warning: plugin 'broken' (broken:register) is left out: ")
        assert "RuntimeError" in line


def test_doctor_says_what_is_missing_and_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["doctor"]) == 0
    assert "gymnasium" in capsys.readouterr().out
    from importlib.metadata import PackageNotFoundError

    from arena.cli import doctor

    def missing(name: str) -> str:
        if name == "pettingzoo":
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor, "version", missing)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert run(["doctor", "--json"]) == 0
    packages = json.loads(capsys.readouterr().out)["packages"]
    (found,) = [p for p in packages if p["name"] == "pettingzoo" and p["extra"] == "pettingzoo"]
    assert found["version"] is None
    assert found["install"].endswith("[pettingzoo]'")


def test_arena_alone_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    shown = capsys.readouterr().out
    assert "arena play cluedo" in shown and "Usage: arena" in shown


def test_starting_is_quick_and_light() -> None:
    """What costs time is not even imported: counted, because times wobble."""
    code = (
        "import sys, arena; "
        "heavy = {'numpy', 'gymnasium', 'pydantic', 'rich', 'click', 'pettingzoo', 'asyncio'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules); "
        "from arena.cli import run; run(['list', 'agents', '--json']); "
        "run(['list', 'games', '--json']); "
        "heavy = {'numpy', 'gymnasium', 'torch', 'pettingzoo', 'prompt_toolkit'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
