"""The structure of the code base: no circle between files, and folders of a readable size."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from arena.cli import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGES = ("arena", "backends", "games", "replays", "trainers")
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}
MOST_MODULES = 16
"""In one folder, `__init__.py` included."""


def imports(tree: ast.Module) -> set[str]:
    """Return the modules of ours that a file imports, in functions and under TYPE_CHECKING too.

    The public package `arena` re-exports names lazily, so it counts as no import.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                names.add(submodule if submodule in MODULES else node.module)
    return {name for name in names if name in MODULES and name != "arena"}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return one cycle of a directed graph, or an empty list (depth-first search)."""
    finished: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        for successor in sorted(graph[node] - finished):
            if found := visit(successor, [*path, node]):
                return found
        finished.add(node)
        return []

    for node in sorted(graph):
        if found := visit(node, []):
            return found
    return []


def test_no_file_imports_itself_through_others() -> None:
    graph = {
        name: imports(ast.parse(path.read_text("utf-8"))) - {name} for name, path in MODULES.items()
    }
    assert sum(map(len, graph.values())) > len(graph)  # The search has found the imports.
    assert not cycle(graph)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c", "b"]),
    ],
)
def test_the_search_finds_a_cycle(graph: dict[str, set[str]], expected: list[str]) -> None:
    assert cycle(graph) == expected


def test_folders_are_small_and_say_their_purpose() -> None:
    sizes = Counter(path.parent for path in FILES)
    # The folder of the command line has one file for each command, and parts named after it.
    entries = [e for entry in COMMANDS.values() for e in (entry.commands or {"": entry}).values()]
    commands = {entry.target.partition(":")[0] for entry in entries}
    cli = ROOT / "arena" / "cli"
    assert {path.stem for path in cli.glob("*.py")} >= commands
    sizes[cli] -= sum(path.stem.partition("_")[0] in commands for path in cli.glob("*.py"))
    assert {str(folder) for folder, size in sizes.items() if size > MOST_MODULES} == set()
    for folder in sizes:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))), folder


def test_arena_has_no_loose_modules() -> None:
    assert {path.name for path in (ROOT / "arena").glob("*.py")} == {"__init__.py", "__main__.py"}


def test_a_class_name_is_defined_once() -> None:
    places: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, set()).add(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
