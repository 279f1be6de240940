"""Settings of models: their files, and what a wrong file is called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from arena.core.errors import UsageError
from arena.llm.backend import BackendTraits, Price
from arena.llm.config import config_table
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from backends.scripted import ScriptedBackend


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARENA_CONFIG", raising=False)


def test_without_a_file_all_tables_are_empty() -> None:
    assert config_table("train") == {}
    assert Settings.load().service == Settings().service  # type: ignore[call-arg]


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
    llm = LLMService(price=Price(1.0, 2.0))
    llm.add("scripted", ScriptedBackend([]))
    assert llm.price("scripted") == Price(1.0, 2.0)
    known = ScriptedBackend([])
    known.traits = BackendTraits(price=Price(3.0, 4.0))  # type: ignore[attr-defined]
    llm.add("known", known)
    assert llm.price("known") == Price(3.0, 4.0)
    llm.hint("topic", "said to people")
    llm.hint("topic", "said to people again")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "said to people\n")
