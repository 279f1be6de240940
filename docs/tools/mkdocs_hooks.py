"""Hooks of MkDocs: pages that are generated from the code when the site is built.

The Python reference has one page per layer, with every module that has public names. The reference
of the command line is made from the commands themselves, so that no flag can be missing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from arena.cli import COMMANDS, GROUPS
from arena.cli.command import KEYS, CommandGroup, OptionsCommand, help_sections

ROOT = Path(__file__).parents[2]
LAYERS = {
    "arena.core": "Rules, values and errors that everything else builds on. No I/O.",
    "arena.plugins": "The catalog of games, bots, backends and other plugins, and their loader.",
    "arena.llm": "Requests to language models: retries, limits, budget, ledger, settings.",
    "arena.agents": "Players: the protocol, bots, people and language models.",
    "arena.episodes": "Playing games, recording them, reading and verifying the records.",
    "arena.envs": "The games behind the interfaces of other libraries.",
    "arena.evaluation": "Schedules, metrics, statistics and reports.",
    "arena.testing": "The conformance kit for games.",
    "games": "The bundled games.",
    "backends": "Services that answer chat requests, and the server of `arena serve`.",
    "trainers": "Training by GRPO: the loop, rewards, hosts, runs and exports.",
    "replays": "Viewers of replays and of training runs.",
}
"""The pages of the Python reference, from the lowest layer to the highest."""
COPIED = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
}
"""Pages that are files of the repository's root, with links relative to it."""
LAST_IN_SEARCH = "---\nsearch:\n  boost: 0.0001\n---\n\n"
"""Front matter that ranks a page behind the guides: who searches asks what to do."""
REMOTE = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc=["']https?://|<link\b[^>]*\brel=["']?"""
    r"""(?:stylesheet|preload|preconnect)\b[^>]*\bhref=["']https?://"""
)
"""An element that would make the browser load something from another host."""


def on_config(config: MkDocsConfig) -> None:
    """Add a page for each command to the navigation, in the groups of `arena --help`."""
    reference: list[Any] = next(part["Reference"] for part in config.nav if "Reference" in part)
    pages = [{f"arena {name}": f"reference/cli/{name}.md"} for name in grouped_commands()]
    reference.insert(0, {"Command line": ["reference/cli.md", *pages]})


def grouped_commands() -> list[str]:
    """Return the names of the commands in the order of `arena --help`."""
    return [name for names in GROUPS.values() for name in names.split()]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {"reference/arena.md": public_page(), "reference/cli.md": cli_page()}
    for package, purpose in LAYERS.items():
        pages[f"reference/{package}.md"] = api_page(package, purpose)
    for name in grouped_commands():
        pages[f"reference/cli/{name}.md"] = command_page(name)
    for page, source in COPIED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        pages[page] = text.replace("](docs/", "](")
    for page, text in pages.items():
        files.append(File.generated(config, page, content=LAST_IN_SEARCH + text))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Raise PluginError if a page loads something from another host."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        if found := REMOTE.search(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page}: the site must work offline, but has {found[0]}")


def public_page() -> str:
    """Return the page of the public import: every name of `arena` and where it is defined."""
    tree = ast.parse((ROOT / "arena" / "__init__.pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: f"arena.{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name != "__version__"
    }
    lines = ["# `arena`", "", "The public import. Each name is loaded when it is first used.", ""]
    lines += ["| Name | Defined as |", "| --- | --- |"]
    lines += [f"| `arena.{name}` | [{home}][] |" for name, home in sorted(homes.items())]
    return "\n".join(lines)


def api_page(package: str, purpose: str) -> str:
    """Return the page of one layer: a directive for each of its modules."""
    lines = [f"# `{package}`", "", purpose, ""]
    for module in modules(package):
        lines += [f"::: {module}", ""]
        if module == "arena.core.game":  # What a game overrides is partly in its base class.
            lines[-1:] = ["    options:", "      inherited_members: true", ""]
    return "\n".join(lines)


def modules(package: str) -> Iterator[str]:
    """Yield the dotted names of the modules of a package; private ones are left out."""
    folder = ROOT / Path(*package.split("."))
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        public = not any(part.startswith("_") for part in name.split("."))
        if public and name != package:  # The page itself describes the package.
            yield name


def cli_page() -> str:
    """Return the list of all commands by group, with a link to the page of each."""
    lines = ["# Command line", "", "`arena COMMAND --help` shows what is needed most, ", ""]
    lines[2] += (
        "`--help-all` every flag and key. Each command has a page here, which is made from it."
    )
    for title, names in GROUPS.items():
        lines += [f"## {title}", "", "| Command | What it does |", "| --- | --- |"]
        lines += [
            f"| [`arena {name}`](cli/{name}.md) | {escaped(COMMANDS[name].summary)} |"
            for name in names.split()
        ]
        lines.append("")
    return "\n".join(lines)


def command_page(name: str) -> str:
    """Return the reference of a command and of the commands below it, with all their flags."""
    lines = []
    for full, command in commands(COMMANDS[name].load(name), f"arena {name}"):
        mark = "##" if lines else "#"
        lines += [f"{mark} `{full}`", "", *command_section(command), ""]
    return "\n".join(lines)


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and, below it, its subcommands, with their full names."""
    yield name, command
    if isinstance(command, CommandGroup):
        for word, entry in command.entries.items():
            yield from commands(entry.load(word), f"{name} {word}")


def command_section(command: click.Command) -> Iterator[str]:
    """Yield the lines of one command: description, arguments, flags by group."""
    yield from paragraphs(command.help or "")
    if not isinstance(command, OptionsCommand):
        return
    if examples := command.config.help_examples:
        yield from ["", "```shell", *examples, "```"]
    for panel, rows in help_sections(command.config).items():
        first = {"Arguments": "Argument", KEYS: "Key"}.get(panel, "Flag")
        yield from ["", f"**{panel}**", "", f"| {first} | Meaning |", "| --- | --- |"]
        yield from (f"| `{spelling}` | {escaped(text)} |" for spelling, text in rows)


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; its marks for line breaks are dropped."""
    yield from (escaped(line.strip()) for line in text.replace("\b", "").splitlines())


def escaped(text: str) -> str:
    """Return text that Markdown shows literally inside a table."""
    return re.sub(r"([|<>*_\[\]])", r"\\\1", text)
