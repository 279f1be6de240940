"""Help, completion and the settings template of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from arena.cli import COMMANDS, GROUPS, app, run
from arena.cli.command import CommandGroup, OptionsCommand
from arena.cli.options import ModelOptions
from arena.llm.settings import Limits, ServiceSettings, Settings
from trainers.config.config import TrainConfig


def loaded(words: Sequence[str]) -> OptionsCommand:
    command: click.Command = app
    for word in words:
        assert isinstance(command, CommandGroup)
        command = command.entries[word].load(word)
    assert isinstance(command, OptionsCommand)
    return command


SHORT = [
    " ".join(words)
    for name, entry in COMMANDS.items()
    for words in ([[name, each] for each in entry.commands] or [[name]])
    if loaded(words).config.short_help
]
"""Commands with a short help."""


@pytest.mark.parametrize("command", SHORT)
def test_help_is_short_and_the_complete_help_is_one_flag_away(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), "--help"]) == 0
    short = capsys.readouterr().out
    flags = [line for line in short.splitlines() if line.startswith("  -")]
    assert 0 < len(flags) <= 12
    assert f"\n  arena {command} " in short and f"arena {command} --help-all" in short
    assert run([*command.split(), "--help-all"]) == 0
    complete = capsys.readouterr().out
    for text in (short, complete):
        assert all(len(line) <= 80 for line in text.splitlines())
        assert "<=x" not in text and "<int" not in text and "int range" not in text
    spelled = {word for line in flags for word in line.split()[:2] if word.startswith("--")}
    assert all(flag.rstrip(",") in complete for flag in spelled)


def test_every_command_is_listed_in_one_line_of_one_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out.partition("\nPlay:\n")[2].splitlines()
    titles = {line[:-1] for line in shown if line.endswith(":")}
    listed = [line.split()[0] for line in shown if line.startswith("  ")]
    assert titles == set(GROUPS) - {"Play"} and sorted(listed) == sorted(COMMANDS)
    assert all(len(line) <= 80 and "..." not in line for line in shown)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("arena play clu", "cluedo"),
        ("arena play cluedo --seat 0=bot:orac", "0=bot:oracle"),
        ("arena eval cluedo --player hum", "human"),
        ("arena pret", "pretrain"),
    ],
)
def test_shells_complete_commands_games_and_specs(typed: str, completed: str) -> None:
    words = typed.split()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("arena"))],
        env={
            **os.environ,
            "_ARENA_COMPLETE": "bash_complete",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"plain,{completed}" in done.stdout.split(), done.stderr


def test_init_writes_every_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARENA_CONFIG", raising=False)
    assert run(["doctor", "--init", "."]) == 0
    text = Path("arena.toml").read_text("utf-8")
    assert Settings.load().service == ServiceSettings()  # type: ignore[call-arg]
    # The comments are settings too: with their "# " removed they are read, and are the defaults.
    names = {*Limits.model_fields, *TrainConfig.model_fields, "llm_backend", "art_wrapper_url"}
    lines = [
        line.removeprefix("# ")
        for line in text.splitlines()
        if line.removeprefix("# ").startswith("[")
        or (line.removeprefix("# ").partition(" =")[0] in names and not line.endswith("="))
    ]
    tables = tomllib.loads("\n".join(dict.fromkeys(lines)))
    assert ServiceSettings(**tables["service"]).limits("none") == Limits()  # type: ignore[call-arg]
    assert all(f"\n# {name} =" in text for name in Limits.model_fields)
    for config in (TrainConfig, ModelOptions):
        assert all(f"\n# {name} =" in text for name in config.settings())
    assert run(["doctor", "--init", "."]) == 2
    assert "exists already" in capsys.readouterr().err
    assert Path("arena.toml").read_text("utf-8") == text
