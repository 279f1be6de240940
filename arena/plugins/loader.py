"""Loader of plugins: the bundled packages, then the packages with an entry point `arena`.

A plugin is a function `register(catalog)`. A plugin that fails, or claims a name that is taken, is
left out with a warning that names it; the other plugins work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from pydantic import JsonValue

from arena.core.errors import PluginWarning
from arena.core.game import Game
from arena.plugins.catalog import Catalog

BUNDLED = ("backends", "games", "trainers")

Register = Callable[[Catalog], None]


def fill(catalog: Catalog) -> Catalog:
    """Let all plugins register their names; return the catalog."""
    catalog.add(
        "bot", "*/random", "arena.agents.random_bot:RandomBot", "any legal action, equally likely"
    )
    catalog.add(
        "agent", "bot", "arena.agents.seating:make_bot", "bot:NAME, a program that plays by rule"
    )
    catalog.add("agent", "human", "arena.agents.human:HumanAgent", "you, at this terminal")
    # Bundled packages come first, so that no other plugin can take their names.
    for package in BUNDLED:
        _load(catalog, package, f"{package}:register", lambda: import_module(package).register)  # noqa: B023 - called at once.
    for entry in entry_points(group="arena"):
        _load(catalog, entry.name, entry.value, entry.load)
    return catalog


def _load(catalog: Catalog, name: str, target: str, load: Callable[[], Register]) -> None:
    """Import one plugin and let it register its names, or leave it out with a PluginWarning."""
    before = catalog.entries_by_kind()
    catalog.plugin = name
    try:
        load()(catalog)
    except (Exception, SystemExit) as error:  # The code of a plugin may fail in any way.
        catalog.restore(before)
        message = f"plugin '{name}' ({target}) is left out: {error!r}"
        warnings.warn(message, PluginWarning, stacklevel=3)


@cache
def catalog() -> Catalog:
    """Return the catalog of this process, filled on the first call."""
    return fill(Catalog())


def make_game(name: str, /, **options: JsonValue) -> Game:
    """Make a game by its name. Raises UsageError for an unknown name or a wrong option."""
    game: Game = catalog().load("game", name)(**options)
    return game
