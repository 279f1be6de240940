"""Keys appear in nothing that is written: games with planted ones, then a search of it all."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluedo_server import GAME, arena, environment, legal_answer
from misbehaving import Asked, Misbehaving, _send
from preloaded import python_command

IN_ENVIRONMENT = {
    "OPENROUTER_API_KEY": "sk-or-v1-PLANTED1a2b3c4d5e6f7a8b9c0d1e2f",
    "COHERE_API_KEY": "coPLANTED2zYxWvUtSrQpOnMlKjIhGfEdCbA9876",
    "ARENA_API_KEY": "arPLANTED3-qwertz-uiopas-dfghjk-lyxcvb",
}
IN_DOTENV = {"ART_API_KEY": "artPLANTED4.kJ8hG7fD6sA5.qW4eR3tZ2uI1oP"}
SECRETS = [*IN_ENVIRONMENT.values(), *IN_DOTENV.values()]
PIECE = 12
"""Characters of a key that may be shown nowhere: the first, as providers like to quote them."""


class Telltale(Misbehaving):
    """Says the key back with each refusal: bare, with its header, and in pieces."""

    async def _refuse(self, writer: Any, asked: Asked, behaviour: str) -> None:
        status = {"unauthorized": 401, "forbidden": 403, "server_error": 500}.get(behaviour, 400)
        sent = asked.headers["authorization"]
        key = sent.removeprefix("Bearer ")
        said = f"key {key}, or {key[:PIECE]}…{key[-4:]}, sent as {asked.headers} is no good"
        error = {"message": said, "code": status, "metadata": {"raw": json.dumps(asked.headers)}}
        body = {"message": said} if asked.path.endswith("/v2/chat") else {"error": error}
        await _send(writer, status, body)


@pytest.fixture
def server() -> Iterator[Telltale]:
    with Telltale(legal_answer) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A working directory with a `.env`, and short waits."""
    lines = [f"{name}={value}\n" for name, value in IN_DOTENV.items()]
    (tmp_path / ".env").write_text("".join(lines))
    (tmp_path / "arena.toml").write_text("[service]\nbackoff = 0.01\nmax_retries = 1\n")
    return tmp_path


def play(
    spec: str, home: Path, server: Misbehaving, flags: str = ""
) -> subprocess.CompletedProcess[str]:
    """Two games with all that can be written of them; what was said goes into a file beside it."""
    set_ones = IN_ENVIRONMENT if not spec.startswith("art") else {}
    done = arena(
        f"{GAME} --seat 0={spec} --games 2 --max-turns 6 --set beliefs=true {flags}",
        home,
        OPENROUTER_API_BASE=server.openai_url,
        COHERE_API_BASE=server.cohere_url,
        ART_WRAPPER_URL=server.url,
        **set_ones,
    )
    (home / "said").write_text(done.stdout + done.stderr)
    return done


def assert_no_secret_below(folder: Path) -> None:
    """Search each file, SQLite's too, byte for byte."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".env"]
    assert folder / "said" in files
    for path in files:
        written = path.read_bytes()
        for secret in SECRETS:
            assert secret[:PIECE].encode() not in written, f"{secret[:PIECE]}… stands in {path}"
            assert secret[-PIECE:].encode() not in written, f"…{secret[-PIECE:]} stands in {path}"


def keys_of(server: Misbehaving) -> set[str]:
    """What the server was really sent."""
    sent = {asked.headers.get("authorization", "") for asked in server.asked}
    return {value.removeprefix("Bearer ") for value in sent}


def test_the_search_finds_a_key(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "said").write_text("")
    (tmp_path / "below" / "x.part").write_text(f"... {SECRETS[0][:PIECE]} ...")
    with pytest.raises(AssertionError, match="x.part"):
        assert_no_secret_below(tmp_path)


@pytest.mark.parametrize(
    ("prefix", "key"),
    [
        ("openrouter:tiny", IN_ENVIRONMENT["OPENROUTER_API_KEY"]),
        ("cohere:tiny", IN_ENVIRONMENT["COHERE_API_KEY"]),
        ("http", IN_ENVIRONMENT["ARENA_API_KEY"]),
        ("art:tiny", IN_DOTENV["ART_API_KEY"]),
    ],
)
def test_no_key_is_written(prefix: str, key: str, home: Path, server: Telltale) -> None:
    spec = f"{server.openai_url}#tiny" if prefix == "http" else prefix
    faults = ["bad_request", "server_error", "context", "not_found", "wrong_shape", "invalid_json"]
    server.script(name for fault in faults for name in (fault, "ok"))
    # One game at a time: the first fault, which is the one that is printed, quotes the key.
    done = play(spec, home, server, "--json --max-concurrent 1")
    assert done.returncode == 0, done.stderr
    assert keys_of(server) == {key}, "the key was sent, so there was something to hide"
    assert "***" in done.stderr, "the provider's words were told, without the key"
    assert list(home.rglob("*.ledger.json"))
    assert_no_secret_below(home)

    server.script(["ok", "ok", "unauthorized"] + ["forbidden"] * 50)
    done = play(spec, home, server, "--seed 100 --out refused")
    assert done.returncode == 1 and "***" in done.stderr
    assert list((home / "refused").glob("*.part"))
    assert_no_secret_below(home)


CRASH = """
import sys
import litellm

async def crash(**arguments):
    raise RuntimeError(f"no way to call {arguments}")

litellm.acompletion = crash
from arena.cli import main

sys.argv[0] = "arena"
main()
"""


def test_a_crash_inside_of_litellm_tells_no_key(home: Path, server: Telltale) -> None:
    """The arguments of litellm hold the key, and so may the text of whatever it raises."""
    done = subprocess.run(
        [*python_command(), "-c", CRASH, *f"{GAME} --seat 0=openrouter:tiny --max-turns 4".split()],
        cwd=home,
        env=environment(
            LITELLM_LOCAL_MODEL_COST_MAP="True", OPENROUTER_API_BASE=server.url, **IN_ENVIRONMENT
        ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    (home / "said").write_text(done.stdout + done.stderr)
    # The model has never answered, so the run is not a success.
    assert done.returncode == 1 and "RuntimeError" in done.stderr
    assert_no_secret_below(home)


PASSWORD = f"http://me:{SECRETS[0]}@127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (f"--seat 0={PASSWORD}#tiny", {}),
        (f"--backend {PASSWORD}#tiny", {}),
        ("", {"LLM_BACKEND": PASSWORD}),
        ("--backend art", {"ART_WRAPPER_URL": PASSWORD}),
        ("", {"ARENA_PLAY_BACKEND": PASSWORD.replace("http", "htp")}),
        (f"--backend {PASSWORD} --seat 0=bot:novice --seat 1=bot:novice --seat 2=bot:novice", {}),
    ],
)
def test_a_password_in_a_url_is_refused_and_not_repeated(
    flags: str, variables: dict[str, str], home: Path
) -> None:
    done = arena(f"{GAME} {flags}", home, **variables)
    (home / "said").write_text(done.stdout + done.stderr)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert not (home / "runs").exists()
    assert_no_secret_below(home)


def test_a_key_in_the_settings_file_is_not_repeated(home: Path) -> None:
    (home / "arena.toml").write_text("")
    (home / "wrong.toml").write_text(f'[service]\napi_key = "x"\nconcurrency = "{SECRETS[0]}"\n')
    done = arena(f"{GAME} --seat 0=http://127.0.0.1:9/v1#x", home, ARENA_CONFIG="wrong.toml")
    (home / "said").write_text(done.stdout + done.stderr)
    (home / "wrong.toml").unlink()
    assert done.returncode == 2 and "concurrency" in done.stderr
    assert_no_secret_below(home)
