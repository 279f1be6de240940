"""Every command in the documentation exists, with every flag that it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from code_blocks import DOCUMENTS, ROOT, commands

from arena.cli import app

COMMANDS = [
    (words, f"{path.relative_to(ROOT)}: {' '.join(words)[:70]}")
    for path in DOCUMENTS
    for words in commands(path)
]


@pytest.mark.parametrize("words", [c[0] for c in COMMANDS], ids=[c[1] for c in COMMANDS])
def test_command_is_understood(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    words = list(words)
    name = [words.pop(0)]
    while words and words[0] in getattr(command, "commands", {}):
        name.append(words.pop(0))
        command = command.commands[name[-1]]
    if hasattr(command, "commands"):
        assert not words or words[0].startswith("-"), f"there is no command {words[0]}"
    with command.make_context(" ".join(name), [], resilient_parsing=True) as ctx:
        ctx.resilient_parsing = False  # It was for the missing arguments.
        # Raises for an unknown flag, a missing value and a word too many; runs nothing.
        command.make_parser(ctx).parse_args(words)


def test_all_commands_are_shown_somewhere() -> None:
    shown = {word for words, _ in COMMANDS for word in words[1:2]}
    group: Any = typer.main.get_command(app)
    assert not set(group.commands) - shown, "commands that no document shows"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_are_closed(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("```") % 2 == 0
