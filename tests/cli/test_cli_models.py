"""`arena play` with models, as a user meets it: what is missing, what it costs, what is kept."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluedo_server import GAME, arena, legal_answer, start
from command_line import wait_until
from misbehaving import Misbehaving

from arena.cli import run
from arena.episodes.replay import read_replay, verify


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    with Misbehaving(legal_answer) as running:
        yield running


@pytest.fixture
def spec(server: Misbehaving) -> str:
    return f"{server.openai_url}#tiny"


def only_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    """What a run that came to nothing has said: one line, and no traceback."""
    assert done.returncode == code, done.stderr
    assert not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("arena: ")
    return line


def last_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


URL = "http://127.0.0.1:9/v1#tiny"
ALL_NAMED = " ".join(f"--seat {seat}=bot:novice" for seat in range(3))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--seat 0=openrouter:openai/gpt-4o-mini", ["OPENROUTER_API_KEY", ".env"]),
        ("--seat 0=cohere:command-r", ["COHERE_API_KEY", "CO_API_KEY"]),
        ("--backend openrouter", ["OPENROUTER_API_KEY"]),
        ("--seat 0=gtp:4", ["'gtp:4'", "openrouter", "http"]),
        ("--backend gtp", ["--backend gtp", "openrouter", "http"]),
        ("--seat 0=http:nowhere", ["http://HOST:PORT/v1#MODEL"]),
        ("--seat 0=litellm", ["name a model"]),
        (f"--seat 0={URL} --chat apend", ["--chat apend", "append or fresh"]),
        (f"--seat 0={URL} --answers xml", ["--answers xml", "text, json"]),
        (f"--seat 0={URL} --set max_attempts=0", ["--set max_attempts=0"]),
        (f"--seat 0={URL} --temperature 9", ["--temperature"]),
        (f"--seat 0={URL} --max-cost -1", ["--max-cost"]),
        (f"--seat 0={URL} --max-cost nan", ["--max-cost"]),
        (f"--backend art {ALL_NAMED}", ["--backend art", "all seats are taken"]),
        ("--seat 3=model --backend art", ["seats 0 to 2"]),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    flags: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENROUTER_API_KEY", "COHERE_API_KEY", "CO_API_KEY", "LLM_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    assert run(f"{GAME} {flags}".split()) == 2
    written = capsys.readouterr()
    (line,) = written.err.splitlines()
    assert not written.out and all(word in line for word in words), line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[service\n", "at line 1"),
        ("[service]\nconcurrency = 0\n", "service.concurrency"),
        ("[service.http]\nconcurency = 3\n", "[service.http]: concurency"),
        ("[service]\nhttp = 3\n", "[service.http]"),
    ],
)
def test_a_bad_settings_file(text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text(text)
    assert word in only_line(arena(f"{GAME} --seat 0={URL}", tmp_path), 2)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_refused_connection_says_where_it_looked(tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text("[service]\npatience = 0.2\nbreaker_failures = 1\n")
    done = arena(f"{GAME} --backend art", tmp_path, ART_WRAPPER_URL="http://127.0.0.1:9")
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("arena: "))
    assert done.returncode == 1
    assert all(w in line for w in ("http://127.0.0.1:9/v1", "ART_WRAPPER_URL", "`arena serve`"))


@pytest.mark.parametrize("words", ["", "--backend art", "--backend ART --seat 1=model"])
def test_art_is_chosen_as_the_earlier_arena_had_it(
    words: str, server: Misbehaving, tmp_path: Path
) -> None:
    chosen = {} if words else {"LLM_BACKEND": "ART"}
    command = f"{GAME} --max-turns 4 --json {words}"
    result = last_json(arena(command, tmp_path, ART_WRAPPER_URL=server.url, **chosen))
    players = ["bot:detective"] * 3
    players[1 if "1=model" in words else 0] = "art"
    assert result["players"] == players
    assert result["ledger"]["backends"]["art"]["answered"] == server.ledger.requests > 0


def test_the_backend_takes_the_first_seat_that_nobody_named(
    server: Misbehaving, tmp_path: Path
) -> None:
    command = f"{GAME} --max-turns 4 --json --backend {server.openai_url}#tiny --seat 0=bot:novice"
    players = last_json(arena(command, tmp_path))["players"]
    assert players == ["bot:novice", f"{server.openai_url}#tiny", "bot:detective"]


def test_json_has_each_game_and_the_ledger(spec: str, server: Misbehaving, tmp_path: Path) -> None:
    command = f"{GAME} --seat 0={spec} --games 3 --max-turns 6 --json"
    done = arena(command, tmp_path)
    result = last_json(done)
    assert list(result) == ["games", "ledger"] and len(done.stdout.splitlines()) == 1
    assert sorted(game["seed"] for game in result["games"]) == [1, 2, 3]
    total = result["ledger"]["total"]
    assert total["calls"] == total["answered"] == server.ledger.requests
    assert total["prompt_tokens"] == server.ledger.prompt_tokens
    assert total["cost"] == pytest.approx(server.ledger.cost)
    (written,) = tmp_path.rglob("*.ledger.json")
    assert json.loads(written.read_text()) == result["ledger"]


def test_a_spent_budget_ends_the_run_cleanly(
    spec: str, server: Misbehaving, tmp_path: Path
) -> None:
    flags = "--games 30 --max-turns 6 --max-concurrent 2 --max-tokens 50 --max-cost 0.02 "
    flags += "--set price_in=1 --set price_out=1"
    done = arena(f"{GAME} --seat 0={spec} --out out {flags}", tmp_path)
    assert done.returncode == 1
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("arena: "))
    assert "--max-cost 0.02" in line and "finished games are kept" in line
    finished = list((tmp_path / "out").glob("*.jsonl"))
    assert f"{len(finished)} of 30 games finished" in done.stderr and 0 < len(finished) < 30
    assert all(verify(read_replay(path)) is None for path in finished)
    assert not list((tmp_path / "out").glob("*.part"))
    assert server.ledger.prompt_tokens + server.ledger.completion_tokens <= 20000 + 50


def finished_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.jsonl"))


def test_ctrl_c_keeps_what_is_finished_and_the_accounts(
    spec: str, server: Misbehaving, tmp_path: Path
) -> None:
    server.script(["ok"] * 40 + ["hang"] * 1000)
    command = f"{GAME} --seat 0={spec} --games 30 --max-turns 6 --max-concurrent 3 --out out --json"
    playing = start(command, tmp_path)
    wait_until(lambda: server.ledger.behaviours["hang"] == 3 or playing.poll() is not None)
    playing.send_signal(signal.SIGINT)
    stdout, _ = playing.communicate(timeout=60)
    said = (tmp_path / "stderr").read_text()
    assert playing.returncode == 130 and "Traceback" not in said
    out = tmp_path / "out"
    replays = [read_replay(path) for path in finished_in(out)]
    assert 0 < len(replays) < 30 and all(verify(replay) is None for replay in replays)
    assert len(list(out.glob("*.part"))) == 3
    assert f"Interrupted: {len(replays)} of 30 games finished" in said
    (ledger,) = out.glob("*.ledger.json")
    total = json.loads(ledger.read_text())["total"]
    assert (total["answered"], total["failures"]) == (40, {"cancelled": 3})
    result = json.loads(stdout)
    assert len(result["games"]) == len(replays)
    assert result["ledger"] == json.loads(ledger.read_text())


def test_a_ledger_that_cannot_be_written_is_one_line(
    spec: str, server: Misbehaving, tmp_path: Path
) -> None:
    # A folder stands where the ledger belongs: even a user who may write anywhere meets that.
    (tmp_path / "out" / ".cluedo-cards-3p-seed1.ledger.json.part").mkdir(parents=True)
    done = arena(f"{GAME} --seat 0={spec} --max-turns 4 --out out", tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("arena: "))
    assert "cannot write out/cluedo-cards-3p-seed1.ledger.json" in line
    assert len(finished_in(tmp_path / "out")) == 1


def test_a_model_that_cannot_play(spec: str, server: Misbehaving, tmp_path: Path) -> None:
    server.script(["refusal"] * 1000)
    done = arena(f"{GAME} --seat 0={spec} --set max_attempts=2 --max-turns 4", tmp_path)
    assert done.returncode == 1 and "fallback moves were played for it" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("made no legal move in any game")
