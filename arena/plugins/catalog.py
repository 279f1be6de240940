"""Catalog of the names that plugins register, and the code that each name refers to.

The catalog is filled on the first look-up, never on import; the code behind a name is imported on
first use, and `require` checks for the packages that it needs. All plugins, the bundled packages
included, fill it by the same function, `register(catalog)`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from arena.core.errors import ArenaError, MissingDependency, NameTaken, UsageError
from arena.core.text import did_you_mean

T = TypeVar("T")
DISTRIBUTION = "arena-games"
"""Name of arena's package on an index."""


def run_plugin(what: str, code: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call code of a plugin, which may fail in any way. Raises ArenaError, with `what` and why."""
    try:
        return code(*arguments, **options)
    except ArenaError:
        raise
    except (Exception, SystemExit) as error:
        raise ArenaError(f"{what}: {error!r}") from error


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One name of the catalog."""

    kind: str
    name: str
    target: str
    """`"module:attribute"`."""
    summary: str
    plugin: str
    """Name of the plugin that registered it."""


class Catalog:
    """Names by kind: `game`, `bot` (`GAME/BOT`; `*/BOT` plays any), `agent`, `backend`, …"""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, CatalogEntry]] = {}
        self.plugin = "arena"
        """Name of the plugin that registers now; set by the loader."""

    def add(self, kind: str, name: str, target: str, summary: str = "") -> None:
        """Register `name`.

        Raises:
            UsageError: The target is no `"module:attribute"`.
            NameTaken: The name is registered already.
        """
        if not isinstance(target, str) or ":" not in target:
            raise UsageError(f"{kind} '{name}': {target!r} is not a text \"module:attribute\"")
        taken = self._entries.setdefault(kind, {}).get(name)
        if taken:
            raise NameTaken(
                f"two plugins claim the {kind} '{name}': {taken.plugin} ({taken.target}) and "
                f"{self.plugin} ({target}); uninstall one of them"
            )
        self._entries[kind][name] = CatalogEntry(kind, name, target, summary, self.plugin)

    def add_file(self, path: Path) -> None:
        """Register the names of a TOML file: a table for each kind, `NAME = [TARGET, SUMMARY]`.

        A file costs less than code when a process needs only a few of many names.
        """
        for kind, names in tomllib.loads(path.read_text("utf-8")).items():
            for name, entry in names.items():
                self.add(kind, name, *entry)

    def names(self, kind: str) -> list[str]:
        """Return the names of one kind, in order of registration."""
        return list(self._entries.get(kind, {}))

    def entries(self, kind: str) -> list[CatalogEntry]:
        """Return the entries of one kind, in order of registration."""
        return list(self._entries.get(kind, {}).values())

    def load(self, kind: str, name: str) -> Any:
        """Import the object that `name` refers to.

        Raises:
            UsageError: The name is not registered.
            MissingDependency: The object needs a package that is not installed.
            ArenaError: The import fails in any other way.
        """
        entry = self._entries.get(kind, {}).get(name)
        if entry is None:
            names = self.names(kind)
            # The start of a name is near it, however long the rest is.
            longer = [each for each in names if name and each.startswith(name)]
            hint = did_you_mean(longer[0] if longer else name, names)
            known = ", ".join(names) or "none"
            raise UsageError(f"there is no {kind} '{name}'; {hint}known: {known}")
        module, _, attribute = entry.target.partition(":")

        def find() -> Any:
            try:
                return getattr(import_module(module), attribute)
            except ModuleNotFoundError as error:
                raise MissingDependency(
                    f"{kind} '{name}' of {entry.plugin} needs the package '{error.name}', "
                    "which is not installed; 'arena doctor' says how to get it"
                ) from error

        return run_plugin(f"{self.source(kind, name)} cannot be loaded", find)

    def source(self, kind: str, name: str) -> str:
        """Return a registered name with its origin, for errors: `game 'go' of NAME (TARGET)`."""
        entry = self._entries[kind][name]
        return f"{kind} '{name}' of {entry.plugin} ({entry.target})"

    def entries_by_kind(self) -> dict[str, dict[str, CatalogEntry]]:
        """Return a copy of all entries."""
        return {kind: dict(entries) for kind, entries in self._entries.items()}

    def restore(self, entries: dict[str, dict[str, CatalogEntry]]) -> None:
        """Replace all entries by those of `entries_by_kind`."""
        self._entries = entries


def require(what: str, packages: Iterable[str], extras: str) -> None:
    """Raise MissingDependency if `what` needs a package that is not installed.

    The packages are the names of modules that it imports later; `extras` of arena-games install
    them.
    """
    for package in packages:
        if find_spec(package) is None:
            raise MissingDependency(
                f"{what} needs the package '{package}', which is not installed: "
                + install_command(extras)
            )


def install_command(extras: str) -> str:
    """Return the command that adds extras to this installation: from its folder, or by its name."""
    # Imported here: errors alone need them, and `arena --help` should start fast.
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url = urlsplit(origin.get("url", ""))
    source = url2pathname(url.path) if url.scheme == "file" else DISTRIBUTION
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{source}" + (f"[{extras}]'" if extras else "'")
