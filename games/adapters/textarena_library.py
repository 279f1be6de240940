"""The library TextArena: its environments, and the global generator that they draw from."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from arena.plugins.catalog import require


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
    return textarena().make(raw if raw in ENV_REGISTRY else name)


@contextlib.contextmanager
def isolated(generator: random.Random) -> Iterator[None]:
    """Let the library draw from a generator, in place of the global one, which it also seeds."""
    random.setstate(generator.getstate())
    try:
        yield
    finally:
        generator.setstate(random.getstate())
