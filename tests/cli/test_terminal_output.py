"""What the commands print on a terminal of 80 columns: whole words, a verdict, no own files."""

from __future__ import annotations

import re

import pytest
from pseudo_terminal import Terminal

from arena.cli import run
from arena.cli.doctor import Package, find_keys
from arena.cli.terminal import wrap_line
from arena.core.errors import UsageError
from arena.testing import check_game
from games.tictactoe.game import TicTacToe


def test_an_error_is_broken_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["play", "cluedo", "--seat", "0=nobody:here"]
    assert run(command) == 2
    line = capsys.readouterr().err.rstrip("\n")
    assert "\n" not in line, "on a pipe an error is one line"
    with Terminal(command) as terminal:
        shown = terminal.rest().strip().split("\r\n")
        assert terminal.wait() == 2
    assert len(shown) > 1 and max(map(len, shown)) < 80
    assert " ".join(shown) == line


def test_flags_and_paths_stay_whole() -> None:
    line = "  a rather long line that says --dry-run and /a/path-with/hyphens-in-it too"
    shown = wrap_line(line, 30, indent="    ").split("\n")
    assert shown == [
        "  a rather long line that says",
        "      --dry-run and",
        "      /a/path-with/hyphens-in-it",
        "      too",
    ]
    assert wrap_line("", 30) == "" and wrap_line("short", 30) == "short"


@pytest.mark.parametrize("command", ["train", "pretrain", "play", "eval", "doctor"])
def test_the_help_breaks_no_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help-all"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("-")]


def test_doctor_gives_marks_keys_device_and_a_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("COHERE_API_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["doctor"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"✓ numpy +\d", text)
    assert re.search(r"✓ OPENAI_API_KEY +set, for openai:MODEL", text)
    assert re.search(r"· COHERE_API_KEY +not set", text) and "sk-secret" not in text
    assert "Device" in text and max(map(len, text.split("\n"))) <= 80
    assert text.startswith("✓ Ready: bots"), "the verdict comes first"


def test_doctor_marks_only_what_is_required_as_a_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = [Package("numpy", "", None, "pip install numpy"), Package("ray", "ray", None, "")]
    monkeypatch.setattr("arena.cli.doctor.examine", lambda: packages)
    assert run(["doctor"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("✗ Not ready: install numpy.")
    assert re.search(r"✗ numpy +pip install numpy", text)
    assert re.search(r"· ray +0 of 1 installed; missing ray", text)
    assert text.count("✗") == 2


def test_only_the_presence_of_a_key_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "sk-secret")
    assert find_keys()["gemini"] is True


class _Unregistered(TicTacToe):
    name = "unregistered"


def test_a_game_without_an_entry_point_is_named() -> None:
    with pytest.raises(UsageError, match="'unregistered' has no entry point") as caught:
        check_game(_Unregistered())
    assert "catalog.add(" in str(caught.value) and "pyproject.toml" in str(caught.value)
    assert caught.value.__cause__ is None
