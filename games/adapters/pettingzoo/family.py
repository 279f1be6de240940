"""The family `pettingzoo`: classic environments, made on request."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from pydantic import Field, create_model

from arena.core.errors import UsageError
from arena.core.game import Game, GameOptions
from arena.plugins.extras import require
from arena.plugins.families import FamilyGame
from games.adapters.pettingzoo.boards import BOARDS
from games.adapters.pettingzoo.game import VIEW_PARAMETERS, PettingZooGame

FAMILY = "pettingzoo"
EXTRA = "pettingzoo-classic"


class PettingZooFamily:
    """The classic environments, with or without the number of their version."""

    def game_class(self, name: str) -> type[Game]:
        """Return the class of an environment. Raises UsageError or MissingDependency."""
        names = _modules()
        versioned = [known for known in names if name in (known, known.rpartition("_v")[0])]
        if not versioned:
            known = ", ".join(names)
            raise UsageError(f"PettingZoo has no classic environment '{name}'; known: {known}")
        return _game_class(versioned[0])

    def games(self) -> Sequence[FamilyGame]:
        """Return all classic environments, in alphabetical order."""
        return [_listed(name) for name in _modules()]


PETTINGZOO = PettingZooFamily()


@cache
def _modules() -> dict[str, Any]:
    """Return the modules of the environments by name."""
    require(f"a game of {FAMILY}", ["pettingzoo", "rlcard", "shimmy", "chess", "pygame"], EXTRA)
    known = import_module("pettingzoo.classic.all_modules").classic_environments
    names = {key.partition("/")[2]: module for key, module in sorted(known.items())}
    # A text has to exist, because the library shows arrays only.
    return {name: module for name, module in names.items() if name.rpartition("_v")[0] in BOARDS}


@cache
def _game_class(name: str) -> type[PettingZooGame]:
    module = _modules()[name]
    title = name.rpartition("_v")[0].replace("_", " ")
    contents: dict[str, Any] = {
        "__doc__": f"{title}, as PettingZoo implements it.",
        "name": f"{FAMILY}/{name}",
        "summary": f"{title} (PettingZoo)",
        "module": module,
        "Options": _options(name, module),
    }
    return type(f"PettingZoo_{name}", (PettingZooGame,), contents)


def _options(name: str, module: Any) -> type[GameOptions]:
    """Return a model of the parameters of the environment's constructor."""
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(module.raw_env.__init__).parameters.values():
        if parameter.name == "self" or parameter.name in VIEW_PARAMETERS:
            continue
        note = f"Parameter of PettingZoo's {name}."
        kind = type(parameter.default)
        fields[parameter.name] = (kind, Field(parameter.default, description=note))
    return create_model(f"PettingZooOptions_{name}", __base__=GameOptions, **fields)


def _listed(name: str) -> FamilyGame:
    board = BOARDS[name.rpartition("_v")[0]]
    return FamilyGame(
        name=f"{FAMILY}/{name}",
        summary=name.rpartition("_v")[0].replace("_", " "),
        players="2-5" if name.startswith("hanabi") else "2",
        information="imperfect" if board.hides else "perfect",
        features=("arrays",),
    )
