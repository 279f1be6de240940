"""Loader of plugins: the bundled packages, then the packages with an entry point `arena`.

A plugin is a function `register(catalog)`. A plugin that fails, or claims a name that is taken, is
left out with a warning that names it; the other plugins work.

A family is many games that one plugin takes from another library. A plugin registers it with
`catalog.add("game_family", NAME, "module:OBJECT", summary)`; its games are called `NAME/GAME`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

from pydantic import JsonValue

from arena.core.errors import ArenaError, PluginWarning, UsageError
from arena.core.game import Game
from arena.core.text import read_value
from arena.plugins.catalog import Catalog, run_plugin

BUNDLED = ("backends", "games", "trainers")

Register = Callable[[Catalog], None]


def fill(catalog: Catalog) -> Catalog:
    """Let all plugins register their names; return the catalog."""
    catalog.add(
        "bot", "*/random", "arena.agents.agent:RandomBot", "any legal action, equally likely"
    )
    catalog.add(
        "bot",
        "*/easy",
        "arena.agents.seating:EasyBot",
        "the fair bot of the game, with a random move in one decision of four",
    )
    catalog.add(
        "agent", "bot", "arena.agents.seating:make_bot", "bot:NAME, a program that plays by rule"
    )
    catalog.add("agent", "human", "arena.agents.human:HumanAgent", "you, at this terminal")
    catalog.add(
        "agent",
        "agent",
        "arena.agents.program:ProgramAgent",
        "agent:COMMAND, a program that exchanges JSON lines",
    )
    for name, summary in (
        ("rules", "rules and notation"),
        ("brief", "notation only, for trained models"),
    ):
        catalog.add("prompt", name, f"arena.agents.system_prompts:{name}", summary)
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
        # In one line: some errors, such as pydantic's, have several.
        message = f"plugin '{name}' ({target}) is left out: {' '.join(repr(error).split())}"
        warnings.warn(message, PluginWarning, stacklevel=3)


@cache
def catalog() -> Catalog:
    """Return the catalog of this process, filled on the first call."""
    return fill(Catalog())


@dataclass(frozen=True, slots=True)
class FamilyGame:
    """One game of a family, as `arena list games FAMILY` lists it."""

    name: str
    """Name with the family: `open_spiel/kuhn_poker`."""
    summary: str
    players: str
    """Number of seats, for example `2` or `2-10`; empty if it is not known without loading."""
    information: str
    """`perfect`, `imperfect`, or empty if the library does not say."""
    features: tuple[str, ...] = ()
    """Features beyond play and replay, for example `arrays` or `leak test`."""
    problem: str = ""
    """Why the game cannot be played as it is; empty if it can."""


class GameFamily(Protocol):
    """What a plugin registers for a family."""

    def game_class(self, name: str) -> type[Game]:
        """Return the class of the game `name`, without the family; the same one at each call.

        Raises:
            UsageError: The family has no such game.
            MissingDependency: The library is not installed; the message names the extra.
        """

    def games(self) -> Sequence[FamilyGame]:
        """Return the games of the family, in alphabetical order."""


def game_family(name: str) -> GameFamily:
    """Return the family of this name. Raises UsageError if there is none."""
    family: GameFamily = catalog().load("game_family", name)
    return family


def game_class(name: str) -> type[Game]:
    """Return the class of a game by its name, `GAME` or `FAMILY/GAME`.

    Raises UsageError for an unknown name, and MissingDependency for a library that is missing.
    """
    family, slash, rest = name.partition("/")
    families = catalog().names("game_family")
    if slash and family in families:
        return game_family(family).game_class(rest)
    if name in families:
        raise UsageError(f"'{name}' is a family of games: 'arena list games {name}' lists them")
    found: type[Game] = catalog().load("game", name)
    if not (isinstance(found, type) and issubclass(found, Game)):
        raise ArenaError(f"{catalog().source('game', name)} is {found!r}, not a subclass of Game")
    return found


def make_game(name: str | Game, /, **options: JsonValue) -> Game:
    """Make a game by its name, to which options may be added: `open_spiel/go:board_size=9`.

    A game is returned as it is, and takes no options.

    Raises:
        UsageError: An unknown name, a wrong option or an option that is given twice.
        ArenaError: The class of the game cannot be loaded, or its code fails.
    """
    if isinstance(name, Game):
        if options:
            raise UsageError(f"{name!r} has its options already; leave out {', '.join(options)}")
        return name
    name, _, inline = name.partition(":")
    # No value has a comma here; `options` can hold any value.
    for item in inline.split(",") if inline else ():
        option, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"{name}:{inline}: {item!r} is not NAME=VALUE")
        if option in options:
            raise UsageError(f"{name}:{inline}: the option '{option}' is given twice")
        options[option] = read_value(value)
    kind = game_class(name)
    return run_plugin(f"game '{name}' ({kind.__module__}) cannot be made", kind, **options)
