"""Finding plugins: the bundled packages, then whoever declares the entry-point group `arena`.

An entry is a function `register(catalog)`. A third party's plugin that breaks is a warning that
names it, and none of its names stay; two claims to one name are an error.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from arena.core.errors import NameTaken, PluginWarning
from arena.core.game import Game
from arena.core.json import Json
from arena.plugins.catalog import Catalog

BUNDLED = ("backends", "games", "trainers")


def fill(catalog: Catalog) -> Catalog:
    catalog.add(
        "bot", "*/random", "arena.agents.random_bot:RandomBot", "any legal action, equally likely"
    )
    catalog.add(
        "agent", "bot", "arena.agents.seating:make_bot", "bot:NAME, a program that plays by rule"
    )
    catalog.add("agent", "human", "arena.agents.human:HumanAgent", "you, at this terminal")
    for package in BUNDLED:
        catalog.plugin = package
        import_module(package).register(catalog)
    for entry in entry_points(group="arena"):
        catalog.plugin = entry.name
        before = catalog.entries_by_kind()
        try:
            entry.load()(catalog)
        except NameTaken:
            raise
        except Exception as error:  # A stranger's code may fail in any way; the rest must work.
            catalog.restore(before)
            warnings.warn(
                f"plugin '{entry.name}' ({entry.value}) is left out: {error!r}",
                PluginWarning,
                stacklevel=2,
            )
    return catalog


@cache
def catalog() -> Catalog:
    """The one catalog, filled."""
    return fill(Catalog())


def make_game(name: str, /, **options: Json) -> Game:
    """A game by its name; raises UsageError for an unknown name or a bad option."""
    game: Game = catalog().load("game", name)(**options)
    return game
