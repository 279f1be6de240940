"""The library itself: its environments, and the random generators that all of it shares."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from arena.plugins.extras import require

Generators = tuple[Any, Any]
"""States of Python's and NumPy's global generators."""


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


def current_generators() -> Generators:
    """Return the states of the global generators."""
    import numpy as np

    return random.getstate(), np.random.get_state()


@contextlib.contextmanager
def isolated(generators: Generators | None = None, seed: int | None = None) -> Iterator[None]:
    """Run library code with global generators of its own; those of the caller are put back.

    TextArena draws from the global generator of `random`, which it also seeds. Give the states in
    which its last call left the generators, or a seed for a new game. Its prints are dropped.
    """
    kept = current_generators()
    try:
        if generators is not None:
            _set_generators(generators)
        else:
            seed_generators(seed)
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        _set_generators(kept)


def seed_generators(seed: int | None) -> None:
    """Seed the global generators."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)


def _set_generators(states: Generators) -> None:
    import numpy as np

    random.setstate(states[0])
    np.random.set_state(states[1])
