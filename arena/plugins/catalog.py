"""Catalog of the names that plugins register, the code that each name refers to, and their loader.

The catalog is filled on the first look-up, never on import; the code behind a name is imported on
first use, and `require` checks for the packages that it needs. Bundled packages come first, then
the packages with an entry point `arena`.

A plugin is a function `register(catalog)`. A plugin that fails, or claims a name that is taken, is
left out with a warning that names it; the other plugins work.

A family is many games that one plugin takes from another library. A plugin registers it with
`catalog.add("game_family", NAME, "module:OBJECT", summary)`; its games are called `NAME/GAME`.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict, TypeVar

from pydantic import JsonValue

from arena.core.errors import ArenaError, MissingDependency, NameTaken, PluginWarning, UsageError
from arena.core.game import Game
from arena.core.text import did_you_mean, read_value

T = TypeVar("T")
DISTRIBUTION = "arena-games"
"""Name of arena's package on an index."""
BUNDLED = ("backends", "games", "trainers")
"""Packages with a function `register` that come with arena."""


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


def fill(catalog: Catalog) -> Catalog:
    """Let all plugins register their names; return the catalog."""
    catalog.add_file(Path(__file__).with_name("catalog.toml"))
    # Bundled packages come first, so that no other plugin can take their names.
    for package in BUNDLED:
        _load(catalog, package, f"{package}:register", lambda: import_module(package).register)  # noqa: B023 - called at once.
    for entry in entry_points(group="arena"):
        _load(catalog, entry.name, entry.value, entry.load)
    for path in map(Path, filter(None, os.environ.get(GAME_FILES, "").split(os.pathsep))):
        _load(catalog, str(path.resolve()), str(path), lambda: _register_of(path))  # noqa: B023 - called at once.
    return catalog


def _load(
    catalog: Catalog, name: str, target: str, load: Callable[[], Callable[[Catalog], None]]
) -> None:
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


GAME_FILES = "ARENA_GAME_FILES"
"""Environment variable with the paths of files that are plugins, as PATH has folders. Settings of
the working folder do not name any: they run no code."""


def load_game_file(path: Path) -> str:
    """Let a Python file register its names, here and in processes that start later.

    Returns the name of its game. Raises UsageError for a file that is not there or has not one
    game, and ArenaError if its code fails.
    """
    filled, file = catalog(), str(path.resolve())
    if all(entry.plugin != file for entry in filled.entries("game")):
        filled.plugin = file
        run_plugin(f"{path} cannot be loaded", lambda: _register_of(path)(filled))
        known = os.environ.get(GAME_FILES, "")
        os.environ[GAME_FILES] = os.pathsep.join(filter(None, [known, file]))
    games = [entry.name for entry in filled.entries("game") if entry.plugin == file]
    if len(games) != 1:
        raise UsageError(f"{path}: one game is expected there; found: {', '.join(games) or 'none'}")
    return games[0]


def _register_of(path: Path) -> Callable[[Catalog], None]:
    """Return the function `register` of a file; without one, it adds the games of the file."""
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    # Last, so that a file beside it hides no other module.
    sys.path.append(str(path.resolve().parent))
    module = import_module(path.stem)
    if Path(module.__file__ or "").resolve() != path.resolve():
        raise UsageError(f"{path}: there is another module '{path.stem}'; rename the file")

    def register(catalog: Catalog) -> None:
        for name, value in vars(module).items():
            if (
                isinstance(value, type)
                and issubclass(value, Game)
                and value.__module__ == module.__name__
            ):
                catalog.add("game", value.name, f"{module.__name__}:{name}", value.summary)

    found: Callable[[Catalog], None] = getattr(module, "register", register)
    return found


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

    boards: Sequence[str]
    """Names of games that a page draws as a board, and offers to people."""

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


class OptionJson(TypedDict):
    """An option of a game, for lists and forms."""

    name: str
    description: str
    default: JsonValue
    type: str
    choices: NotRequired[list[JsonValue]]
    low: NotRequired[float]
    high: NotRequired[float]


def options_of(game: type[Game]) -> list[OptionJson]:
    """Return the options of a game."""
    options: list[OptionJson] = []
    for name, field in game.Options.model_json_schema().get("properties", {}).items():
        option: OptionJson = {
            "name": name,
            "description": field.get("description", ""),
            "default": field.get("default"),
            "type": field.get("type", "any"),
        }
        choices = [False, True] if option["type"] == "boolean" else field.get("enum")
        if choices:
            option["choices"] = choices
        elif field.keys() >= {"minimum", "maximum"}:
            option |= {"low": field["minimum"], "high": field["maximum"]}
        options.append(option)
    return options


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


@cache
def game_title(name: str) -> str:
    """Return the title of a game; its name if it is not installed or needs an option."""
    try:
        return make_game(name).title
    except ArenaError:
        return name
