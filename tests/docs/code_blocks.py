"""Code blocks and commands of the documentation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r'^ *```(?P<language>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<code>.*?)^ *```$',
    flags=re.S | re.M,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block."""

    language: str
    file: str | None
    """The file that its title names; such a block is saved, not run."""
    code: str


def blocks(path: Path) -> list[Block]:
    """Return the code blocks of a Markdown file, in order."""
    found = FENCE.finditer(path.read_text(encoding="utf-8"))
    return [Block(match["language"], match["file"], match["code"]) for match in found]


def outputs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each command of the `console` blocks, and the output that is shown below it."""
    for block in blocks(path):
        if block.language == "console":
            text = block.code.replace("\\\n", " ")
            for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
                command, _, shown = part.partition("\n")
                yield command, shown


def commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each `arena` command in the blocks of a Markdown file."""
    for block in blocks(path):
        if block.language in ("bash", "shell"):
            for line in block.code.replace("\\\n", " ").splitlines():
                for command in line.split("&&"):
                    words = shlex.split(command, comments=True)
                    if words[:1] == ["arena"]:
                        yield words
