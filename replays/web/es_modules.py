"""Joining of ES modules into one script: a page that is opened from disk cannot import modules.

Each module becomes a function that returns its exports; modules come after those that they import.
Only the forms of import and export that the page uses are supported. Any other form is an error,
so that no broken page is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from arena.core.errors import ArenaError

_NAME = r"[A-Za-z_$][\w$]*"
_FROM = r"""\s*from\s*["']\./(?P<source>[@\w.-]+)["'];?[ \t]*$"""
IMPORT = re.compile(
    rf"^import\s*(?:\{{(?P<names>[^{{}}]*)\}}|\*\s*as\s+(?P<all>{_NAME})){_FROM}", re.MULTILINE
)
IMPORT_ONLY = re.compile(r"""^import\s*["']\./(?P<source>[@\w.-]+)["'];?[ \t]*$""", re.MULTILINE)
EXPORT = re.compile(
    rf"^export\s+(?P<kind>(?:async\s+)?function\s*\*?|class|const)\s*(?P<name>(?<![\w$]){_NAME})",
    re.MULTILINE,
)
EXPORT_LIST = re.compile(r"^export\s*\{(?P<names>[^{}]*)\};?[ \t]*$", re.MULTILINE)
UNSUPPORTED = re.compile(
    r"""^[ \t]*(?:import|export)\b(?=\s*[\w$*{"'])"""  # Another form, or an indented one.
    r"""|\bimport\s*\(|\bimport\s*\.\s*meta\b"""
    r"""|^(?:(?:const|let|var)\s[^=\n]*=\s*)?await\b"""
    r"""|</script|<!--""",  # These would change where the script element ends.
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(slots=True)
class Module:
    """A module whose import and export statements have been removed."""

    name: str
    body: str
    imports: dict[str, dict[str, str]] = field(default_factory=dict)
    """By module: the name here -> the name that the other module exports."""
    namespaces: dict[str, str] = field(default_factory=dict)
    """Names of namespace imports (`import * as name`) -> module."""
    exports: dict[str, str] = field(default_factory=dict)
    """Name for other modules -> name here."""


def join_modules(entry: str, read: Callable[[str], str]) -> str:
    """Return a script with one function per module that `entry` needs.

    Args:
        entry: The name of the main module, which runs last.
        read: Returns the source of a module by its name.

    Raises:
        ArenaError: Modules import each other in a circle, a name is not exported, or a statement
            is not supported.
    """
    modules = _sort_modules(entry, read)
    numbers = {name: number for number, name in enumerate(modules)}
    return "".join(_to_function(module, modules, numbers) for module in modules.values())


def _sort_modules(entry: str, read: Callable[[str], str]) -> dict[str, Module]:
    """Return the modules in topological order."""
    done: dict[str, Module] = {}

    def visit(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise ArenaError(f"circular import of modules: {' → '.join((*importers, name))}")
        if name not in done:
            module = parse_module(name, read(name))
            # Depth first: a module is added after everything that it imports.
            for imported in (*module.imports, *module.namespaces.values()):
                visit(imported, (*importers, name))
            done[name] = module

    visit(entry, ())
    return done


def parse_module(name: str, source: str) -> Module:
    """Remove the import and export statements.

    Raises:
        ArenaError: A statement is not supported; the message contains its line.
    """
    module = Module(name, source.replace("\r\n", "\n").replace("\r", "\n"))

    def remove_import(match: re.Match[str]) -> str:
        groups = match.groupdict()
        names = module.imports.setdefault(match["source"], {})
        if groups.get("all"):
            module.namespaces[match["all"]] = match["source"]
        elif "names" in groups:
            names.update(_parse_bindings(name, match["names"]))
        return "\n" * match[0].count("\n")  # Line numbers in messages stay correct.

    def remove_export(match: re.Match[str]) -> str:
        module.exports[match["name"]] = match["name"]
        return f"{match['kind']} {match['name']}"

    def remove_list(match: re.Match[str]) -> str:
        module.exports.update(_parse_bindings(name, match["names"]))
        return "\n" * match[0].count("\n")

    for pattern, remove in (
        (IMPORT, remove_import),
        (IMPORT_ONLY, remove_import),
        (EXPORT, remove_export),
        (EXPORT_LIST, remove_list),
    ):
        module.body = pattern.sub(remove, module.body)
    unsupported = UNSUPPORTED.search(module.body)
    if unsupported:
        line = module.body.count("\n", 0, unsupported.start()) + 1
        text = module.body[unsupported.start() :].lstrip().partition("\n")[0]
        raise ArenaError(f"{name}, line {line}: unsupported statement: {text[:80]}")
    return module


def _parse_bindings(module: str, names: str) -> Iterator[tuple[str, str]]:
    """Yield (new name, old name) for each part of `a, b as c`."""
    for part in filter(None, map(str.strip, names.split(","))):
        match = re.fullmatch(rf"({_NAME})(?:\s+as\s+({_NAME}))?", part)
        if match is None or "default" in match.groups():
            raise ArenaError(f"{module}: unsupported statement: {{ {part} }}")
        yield match[2] or match[1], match[1]


def _to_function(module: Module, modules: dict[str, Module], numbers: dict[str, int]) -> str:
    lines = [f"// {json.dumps(module.name)}", f"const $module{numbers[module.name]} = (() => {{"]
    for source, bindings in module.imports.items():
        if missing := set(bindings.values()) - modules[source].exports.keys():
            raise ArenaError(f"{module.name}: {source} does not export {', '.join(missing)}")
        if bindings:
            names = ", ".join(f"{outside}: {inside}" for inside, outside in bindings.items())
            lines.append(f"const {{ {names} }} = $module{numbers[source]};")
    for namespace, source in module.namespaces.items():
        lines.append(f"const {namespace} = $module{numbers[source]};")
    exports = "".join(f", {outside}: {inside}" for outside, inside in module.exports.items())
    # A frozen object without prototype behaves like a module namespace.
    lines += [module.body.strip("\n"), f"return Object.freeze({{ __proto__: null{exports} }});"]
    return "\n".join([*lines, "})();", ""])
