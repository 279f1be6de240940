"""Settings of models: their files, and what a wrong file is called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from arena.cli import run
from arena.core.errors import UsageError
from arena.llm.backend import BackendTraits, Price
from arena.llm.environment import address, config_table
from arena.llm.service import LLMService
from arena.llm.settings import RunLimits, Settings
from backends.scripted import ScriptedBackend


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARENA_CONFIG", raising=False)


def test_without_a_file_all_tables_are_empty() -> None:
    assert config_table("train") == {}
    assert Settings.load().service == Settings().service


def test_the_file_of_the_folder_and_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("arena.toml").write_text("\ufeff[train]\nsteps = 3\n[service]\nconcurrency = 7\n")
    Path("mine.toml").write_text("[train]\nsteps = 4\n[service]\nconcurrency = 8\n")
    assert config_table("train") == {"steps": 3} and config_table("other") == {}
    assert Settings.load().service.limits("openrouter").concurrency == 7
    monkeypatch.setenv("ARENA_CONFIG", "mine.toml")
    assert config_table("train") == {"steps": 4}
    assert Settings.load().service.limits("openrouter").concurrency == 8


def test_a_named_file_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_CONFIG", "nowhere.toml")
    for read in (lambda: config_table("train"), Settings.load):
        with pytest.raises(UsageError, match="^ARENA_CONFIG=nowhere.toml: this file does not"):
            read()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"train = 3", "arena.toml: train must be a table, [train]"),
        (b"[train", "arena.toml is not TOML: "),
        (b"a = " + b"[" * 100_000, "arena.toml is not TOML: "),
        (b"[train]\na = '\xff'", "settings: arena.toml cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named(text: bytes, fault: str) -> None:
    Path("arena.toml").write_bytes(text)
    with pytest.raises(UsageError, match="^" + re.escape(fault)) as raised:
        config_table("train")
    assert "\n" not in str(raised.value)


REFUSED = {
    "train.reward_fn = 'evil:f'": "reward_fn = 'evil:f'",
    "train.cluedo.reward_fn = 'evil:f'": "reward_fn",
    "train.vllm_python = './python'": "vllm_python",
    "eval.address = '10.0.0.1:6379'": "address",
    "train.opponents = 'bot:novice, agent:./evil=2'": "opponents",
    "llm_backend = 'agent:./evil'": "llm_backend",
    "models.prompt = '../mine.txt'": "prompt",
    "train.preset = 'evil.toml'": "evil.toml: reward_fn",
    "llm_backend = 'HTTP://evil.example/v1#m'": "llm_backend: HTTP://evil.example/v1 would get the",
    "train.server = 'http://127.0.0.1:1,http://evil.example'": "ARENA_API_KEY of the environment",
    "art_wrapper_url = 'http://localhost:1@evil.example'": "ARENA_API_KEY of the environment",
}
"""Lines of arena.toml in the folder of another person, and words of the refusal."""
ALLOWED = [
    "train.preset = 'demo'", "train.opponents = 'bot:novice'",
    "models.prompt = 'here.txt'",
    "llm_backend = 'http://localhost:8000/v1#m'", "train.server = 'http://[::1]:8000,vllm'",
]  # fmt: skip


@pytest.mark.parametrize("line", [*REFUSED, *ALLOWED])
def test_a_file_of_the_folder_runs_no_code_and_gets_no_key(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENA_API_KEY", "sk-of-the-user")
    Path("arena.toml").write_text(line)
    Path("evil.toml").write_text("reward_fn = 'evil:f'")
    for read in (Settings.load, lambda: config_table("train")):
        if line in ALLOWED:
            read()
            continue
        with pytest.raises(UsageError) as raised:
            read()
        assert REFUSED[line] in str(raised.value) and "sk-of" not in str(raised.value)
    # The user names the file, or the folder has a key of its own.
    if "://" in line:
        Path(".env").write_text("ARENA_API_KEY=sk-of-the-user")
        Settings.load()
    monkeypatch.setenv("ARENA_CONFIG", "arena.toml")
    Settings.load()


@pytest.mark.parametrize(
    ("command", "line", "code"),
    [
        ("play", "ARENA_PLAY_SEAT=0=agent:touch marker", 2),
        ("play", "ARENA_PLAY_BACKEND=https://evil.example/v1", 2),
        ("play", "LLM_BACKEND=http://evil.example/v1", 2),
        ("play", "ART_WRAPPER_URL=http://evil.example", 2),
        ("train", "ARENA_VLLM_PYTHON=./evil", 2),
        ("train", "ARENA_TRAIN_REWARD_FN=evil:f", 2),
        ("play", "ARENA_PLAY_OUT=there", 0),
    ],
)
def test_a_dotenv_of_the_folder_runs_no_code_and_gets_no_key(
    command: str,
    line: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ARENA_API_KEY", "sk-of-the-user")
    Path(".env").write_text(line)
    assert run([command, "kuhn_poker"]) == code
    assert capsys.readouterr().err.count("\n") == (code == 2)
    assert not Path("marker").exists() and Path("there").exists() == (code == 0)


def test_an_address_is_taken_from_where_the_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    names, keys = ["OPENAI_BASE_URL", "OPENAI_API_BASE"], ["OPENAI_API_KEY"]
    for name in (*names, *keys):
        monkeypatch.delenv(name, raising=False)
    assert address(names, keys) is None
    Path(".env").write_text("OPENAI_API_BASE=https://evil.example/v1\nOPENAI_API_KEY=sk-evil")
    assert address(names, keys) == "https://evil.example/v1"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    with pytest.raises(UsageError, match=r"^.env: OPENAI_API_BASE: https://evil.example/v1 would"):
        address(names, keys)
    monkeypatch.setenv("OPENAI_API_BASE", "https://mine.example/v1")
    assert address(names, keys) == "https://mine.example/v1"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[service]\nconcurrency = 'sk-secret'", "settings: service.concurrency: "),
        ("[service]\npatience = 'sk-secret'", "settings: service.patience: "),
    ],
)
def test_a_wrong_value_is_named_by_its_place_and_not_shown(text: str, place: str) -> None:
    """It may be a key in the wrong place."""
    Path("arena.toml").write_text(text)
    with pytest.raises(UsageError) as raised:
        Settings.load()
    assert str(raised.value).startswith(place)
    assert "sk-secret" not in str(raised.value) and "\n" not in str(raised.value)


def test_a_price_is_the_providers_or_the_stated_one_and_lines_for_people_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    llm = LLMService(limits=RunLimits(price_in=1e6, price_out=2e6, price_cached=5e5))
    llm.add("scripted", ScriptedBackend([]))
    assert llm.traits("scripted").price == Price(1.0, 2.0, 0.5)
    known = ScriptedBackend([])
    known.traits = BackendTraits(price=Price(3.0, 4.0))  # type: ignore[attr-defined]
    llm.add("known", known)
    assert llm.traits("known").price == Price(3.0, 4.0)
    llm.hint("topic", "said to people")
    llm.hint("topic", "said to people again")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "said to people\n")
