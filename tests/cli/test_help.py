"""Help of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from arena.cli import COMMANDS, GROUPS, app, run
from arena.cli.command import CommandGroup, OptionsCommand


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


def test_shells_complete_commands() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("arena"))],
        env={
            **os.environ,
            "_ARENA_COMPLETE": "bash_complete",
            "COMP_WORDS": "arena pret",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "plain,pretrain" in done.stdout.split(), done.stderr
