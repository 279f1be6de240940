"""The catalog: names of games, bots, agents and viewers, and where to import each from.

It is filled on the first look-up, never on import, and what a name stands for is imported on
first use. Every plugin, the bundled packages included, fills it by the same function,
`register(catalog)`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from arena.core.errors import MissingDependency, NameTaken, UsageError


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of the catalog."""

    kind: str
    name: str
    target: str
    """`"module:attribute"`."""
    summary: str
    plugin: str
    """Who registered it."""


class Catalog:
    """Names by kind: `game`, `bot` (`GAME/BOT`; `*/BOT` plays any), `agent`, `backend`, …"""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Entry]] = {}
        self.plugin = "arena"
        """Who is registering now; set by the loader."""

    def add(self, kind: str, name: str, target: str, summary: str = "") -> None:
        """Claim `name`. Raises NameTaken when somebody else already has it."""
        taken = self._entries.setdefault(kind, {}).get(name)
        if taken:
            raise NameTaken(
                f"two plugins claim the {kind} '{name}': {taken.plugin} ({taken.target}) and "
                f"{self.plugin} ({target}); uninstall one of them"
            )
        self._entries[kind][name] = Entry(kind, name, target, summary, self.plugin)

    def names(self, kind: str) -> list[str]:
        return list(self._entries.get(kind, {}))

    def entries(self, kind: str) -> list[Entry]:
        return list(self._entries.get(kind, {}).values())

    def load(self, kind: str, name: str) -> Any:
        """Import what `name` stands for. Raises UsageError for a name that nobody registered."""
        entry = self._entries.get(kind, {}).get(name)
        if entry is None:
            longer = [known for known in self.names(kind) if name and known.startswith(name)]
            near = longer or difflib.get_close_matches(name, self.names(kind), n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            known = ", ".join(self.names(kind)) or "none"
            raise UsageError(f"there is no {kind} '{name}'; {hint}known: {known}")
        module, _, attribute = entry.target.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise MissingDependency(
                f"{kind} '{name}' of {entry.plugin} needs the package '{error.name}', "
                "which is not installed; 'arena doctor' says how to get it"
            ) from error

    def entries_by_kind(self) -> dict[str, dict[str, Entry]]:
        """A copy of everything that is registered."""
        return {kind: dict(entries) for kind, entries in self._entries.items()}

    def restore(self, entries: dict[str, dict[str, Entry]]) -> None:
        """Go back to what was registered before a plugin broke."""
        self._entries = entries
