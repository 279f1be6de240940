"""`gymnasium.make("arena/Cluedo-v0")`, at no cost to those who do not use Gymnasium.

Gymnasium knows only ids that somebody has registered with it, and importing it takes longer than
importing arena. So arena registers its ids when Gymnasium is imported, before or after arena.

A game of your own gets an id in the same way, with your values:

    gymnasium.register("mine/Hex-v0", "arena.envs.gymnasium:SingleAgentEnv", kwargs={"game": "hex"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

IDS = {
    "arena/Cluedo-v0": {"game": "cluedo", "opponents": "bot:detective"},
    "arena/TicTacToe-v0": {"game": "tictactoe"},
    "arena/KuhnPoker-v0": {"game": "kuhn_poker"},
    "arena/Goofspiel-v0": {"game": "goofspiel"},
}
"""Gymnasium's ids of the bundled games, and how `SingleAgentEnv` is made for each."""


def register() -> None:
    """Tell Gymnasium of `IDS`; the environment itself is imported by the first `make`."""
    from gymnasium.envs import registration

    for name, kwargs in IDS.items():
        if name not in registration.registry:
            registration.register(name, "arena.envs.gymnasium:SingleAgentEnv", kwargs=dict(kwargs))


def register_when_gymnasium_is_imported() -> None:
    """Register now if Gymnasium is already imported, else as soon as it is."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _Doorbell) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Doorbell())


class _Doorbell(MetaPathFinder):
    """Rings once, when Gymnasium has been imported. It finds nothing itself.

    It stays until the module is executed: to look for a module is not yet to import it.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        spec = self._ask_the_others(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = partial(self._ring_after, execute)  # type: ignore[method-assign]
        return spec

    def _ask_the_others(self, name: str) -> ModuleSpec | None:
        sys.meta_path.remove(self)
        try:
            return find_spec(name)
        finally:
            sys.meta_path.insert(0, self)

    def _ring_after(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        execute(module)
        register()
