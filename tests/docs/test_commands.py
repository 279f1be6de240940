"""Every command in the documentation exists, with every flag that it is given."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from code_blocks import DOCUMENTS, ROOT, commands

from arena.cli import app
from arena.cli.command import CommandGroup

COMMANDS = [
    (words, f"{path.relative_to(ROOT)}: {' '.join(words)[:70]}")
    for path in DOCUMENTS
    for words in commands(path)
]


@pytest.mark.parametrize("words", [c[0] for c in COMMANDS], ids=[c[1] for c in COMMANDS])
def test_command_is_understood(words: list[str]) -> None:
    command: click.Command = app
    words = list(words)
    name = [words.pop(0)]
    while isinstance(command, CommandGroup) and (words or command.default):
        word = words.pop(0) if words[0] in command.entries else command.default
        assert word or words[0].startswith("-"), f"there is no command {words[0]}"
        if not word:
            return
        name.append(word)
        command = command.entries[word].load(word)
    with command.make_context(" ".join(name), [], resilient_parsing=True) as ctx:
        # Raises for an unknown flag, a missing value and a word too many; runs nothing.
        command.make_parser(ctx).parse_args(words)


def test_all_commands_are_shown_somewhere() -> None:
    shown = {word for words, _ in COMMANDS for word in words[1:2]}
    assert not set(app.entries) - shown, "commands that no document shows"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_are_closed(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("```") % 2 == 0
