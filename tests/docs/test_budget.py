"""The project stays within the caps of CONTRIBUTING.md, section "Saying no"."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from code_blocks import ROOT

from arena.cli import COMMANDS
from trainers.config.config import TrainConfig

PACKAGES = ("arena", "backends", "games", "replays", "trainers")
WEB = (".js", ".css", ".html", ".jinja")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def caps() -> dict[str, int]:
    """Return the table: what is counted, and its cap."""
    section = read("CONTRIBUTING.md").split("## Saying no", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|$", section, flags=re.M)
    return {name: int(cap) for name, cap in rows}


def files(folders: Iterable[str], *suffixes: str) -> list[Path]:
    """Return the files below these folders whose names end so."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return [path for path in found if path.suffix in suffixes]


def lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def pages() -> list[Path]:
    return files(["docs"], ".md")


COUNTS: dict[str, Callable[[], int]] = {
    "product lines": lambda: lines(files(PACKAGES, ".py")),
    "modules": lambda: len(files(PACKAGES, ".py")),
    "web lines": lambda: lines(files(PACKAGES, *WEB)),
    "test lines": lambda: lines(files(["tests"], ".py")),
    "words of docs": lambda: sum(len(page.read_text("utf-8").split()) for page in pages()),
    "docs pages": lambda: len(pages()),
    "CHANGELOG lines": lambda: len(read("CHANGELOG.md").splitlines()),
    "commands": lambda: len(COMMANDS),
    "settings of training": lambda: len(TrainConfig.model_fields),
    "extras": lambda: len(
        tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    ),
    "make targets": lambda: len(re.findall(r"^[a-z][a-z-]*:", read("Makefile"), flags=re.M)),
    "test environments": lambda: len(set(re.findall(r"build/venv-[a-z]+", read("Makefile")))),
}


def test_each_cap_is_counted() -> None:
    assert list(caps()) == list(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_within_the_cap(name: str) -> None:
    count, cap = COUNTS[name](), caps()[name]
    assert count <= cap, f"{count} {name}, more than {cap}: remove something, see CONTRIBUTING.md"
