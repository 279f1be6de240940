"""ES modules as one script: a page that is opened from disk cannot import any.

Each module becomes a function that returns what it exports, in an order in which everything is
there before it is needed. Only the forms that our pages use are understood; at any other one the
joining fails, rather than write a page that does not work.
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
LEFT_OVER = re.compile(
    r"""^[ \t]*(?:import|export)\b(?=\s*[\w$*{"'])"""  # Another form, or one inside of something.
    r"""|\bimport\s*\(|\bimport\s*\.\s*meta\b"""
    r"""|^(?:(?:const|let|var)\s[^=\n]*=\s*)?await\b"""
    r"""|</script|<!--""",  # Either would end the script element, or change where it ends.
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Binding:
    """`outside as inside`, whichever way it goes."""

    outside: str
    inside: str


@dataclass(slots=True)
class Module:
    """A module without its imports and exports, and what they were."""

    name: str
    body: str
    imports: dict[str, list[Binding]] = field(default_factory=dict)
    """By module; the names that it must export."""
    wholes: dict[str, str] = field(default_factory=dict)
    """By the name that stands for all of a module."""
    exports: list[Binding] = field(default_factory=list)


def join_modules(entry: str, read: Callable[[str], str]) -> str:
    """One classic function per module that `entry` needs, itself last, for a module script.

    `read` gives a module's source by its name. Raises ArenaError for modules that need each other,
    that need what is not exported, and for what is not understood.
    """
    modules = _in_order(entry, read)
    numbers = {name: number for number, name in enumerate(modules)}
    return "".join(_as_function(module, modules, numbers) for module in modules.values())


def _in_order(entry: str, read: Callable[[str], str]) -> dict[str, Module]:
    """Every module after those that it needs."""
    done: dict[str, Module] = {}

    def visit(name: str, needing: tuple[str, ...]) -> None:
        if name in needing:
            raise ArenaError(f"modules need each other: {' → '.join((*needing, name))}")
        if name not in done:
            module = parse_module(name, read(name))
            for needed in (*module.imports, *module.wholes.values()):
                visit(needed, (*needing, name))
            done[name] = module

    visit(entry, ())
    return done


def parse_module(name: str, source: str) -> Module:
    """Take the imports and exports out. Raises ArenaError with the line that is not understood."""
    module = Module(name, source.replace("\r\n", "\n").replace("\r", "\n"))

    def take_import(match: re.Match[str]) -> str:
        needed = module.imports.setdefault(match["source"], [])
        if "all" in match.groupdict() and match["all"]:
            module.wholes[match["all"]] = match["source"]
        elif "names" in match.groupdict():
            needed.extend(_bindings(name, match["names"]))
        return "\n" * match[0].count("\n")

    def take_export(match: re.Match[str]) -> str:
        module.exports.append(Binding(match["name"], match["name"]))
        return f"{match['kind']} {match['name']}"

    def take_list(match: re.Match[str]) -> str:
        renamed = _bindings(name, match["names"])
        module.exports.extend(Binding(one.inside, one.outside) for one in renamed)
        return "\n" * match[0].count("\n")

    for form, take in (
        (IMPORT, take_import),
        (IMPORT_ONLY, take_import),
        (EXPORT, take_export),
        (EXPORT_LIST, take_list),
    ):
        module.body = form.sub(take, module.body)
    left = LEFT_OVER.search(module.body)
    if left:
        line = module.body.count("\n", 0, left.start()) + 1
        told = module.body[left.start() :].lstrip().partition("\n")[0]
        raise ArenaError(f"{name}, line {line}: cannot be put into one file: {told[:80]}")
    return module


def _bindings(module: str, names: str) -> Iterator[Binding]:
    """Of `a, b as c`."""
    for part in filter(None, map(str.strip, names.split(","))):
        match = re.fullmatch(rf"({_NAME})(?:\s+as\s+({_NAME}))?", part)
        if match is None or "default" in match.groups():
            raise ArenaError(f"{module}: cannot be put into one file: {{ {part} }}")
        yield Binding(match[1], match[2] or match[1])


def _as_function(module: Module, modules: dict[str, Module], numbers: dict[str, int]) -> str:
    lines = [f"// {json.dumps(module.name)}", f"const $module{numbers[module.name]} = (() => {{"]
    for source, bindings in module.imports.items():
        missing = {b.outside for b in bindings} - {b.outside for b in modules[source].exports}
        if missing:
            raise ArenaError(f"{module.name}: {source} does not export {', '.join(missing)}")
        if bindings:
            names = ", ".join(f"{b.outside}: {b.inside}" for b in bindings)
            lines.append(f"const {{ {names} }} = $module{numbers[source]};")
    for whole, source in module.wholes.items():
        lines.append(f"const {whole} = $module{numbers[source]};")
    exported = "".join(f", {b.outside}: {b.inside}" for b in module.exports)
    lines += [module.body.strip("\n"), f"return Object.freeze({{ __proto__: null{exported} }});"]
    return "\n".join([*lines, "})();", ""])
