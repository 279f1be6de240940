"""The library TextArena: its environments, and generators of random numbers of their own."""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import sys
import threading
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from arena.plugins.catalog import require


class TextArenaRandom(threading.local):
    """Replacement of the module `random` in the modules of TextArena.

    TextArena draws from the global generator, and `reset` seeds it. With this object in its place
    each game draws from a generator of its own, and the global one is not touched. Each thread has
    its own current game.
    """

    def __init__(self) -> None:
        self.current: random.Random | None = None
        """The generator of the game that is being played; None outside of `isolated`."""

    def __getattr__(self, name: str) -> Any:
        # The functions of the module are the methods of a generator; its classes are not.
        own = getattr(self.current, name, None)
        return getattr(random, name) if own is None else own


RANDOM = TextArenaRandom()


@cache
def textarena() -> Any:
    """Import the library. Raises MissingDependency without it."""
    require("a game of textarena", ["textarena"], "textarena")
    import textarena as library

    return library


@cache
def environment_ids() -> tuple[str, ...]:
    """Return the environments, without those that differ only in how they wrap texts."""
    textarena()
    from textarena.envs.registration import ENV_REGISTRY

    # A slash in a name ("Taboo-v0-city/country") would look like a family.
    plain = (name for name in ENV_REGISTRY if not {"raw", "train"} & set(name.split("-")))
    return tuple(sorted(name for name in plain if "/" not in name))


def new_environment(name: str) -> Any:
    """Return a new environment without the wrappers that change texts."""
    from textarena.envs.registration import ENV_REGISTRY

    raw = f"{name}-raw"
    name = raw if raw in ENV_REGISTRY else name
    _environment_module(str(ENV_REGISTRY[name].entry_point).partition(":")[0])
    return textarena().make(name)


@cache
def _environment_module(name: str) -> ModuleType:
    """Import the module of an environment, and let all of TextArena draw from `RANDOM`."""
    module = importlib.import_module(name)
    for known, each in list(sys.modules.items()):
        if known.startswith("textarena") and vars(each).get("random") is random:
            vars(each)["random"] = RANDOM
    return module


@contextlib.contextmanager
def isolated(generator: random.Random) -> Iterator[None]:
    """Run library code with a generator of its own; what it prints is dropped."""
    before, RANDOM.current = RANDOM.current, generator
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        RANDOM.current = before
