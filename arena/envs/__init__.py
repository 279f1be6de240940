"""Games behind the interfaces of Gymnasium, PettingZoo, OpenEnv and the Model Context Protocol.

Gymnasium knows only ids that are registered with it, and importing it takes longer than importing
arena. So arena registers the ids of its games, such as "arena/Cluedo-v0", when Gymnasium is
imported, before or after arena. A game of your own gets an id in the same way, with your values:

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
    f"arena/{class_name}-v0": {"game": name}
    for class_name, name in (
        ("Cluedo", "cluedo"),
        ("TicTacToe", "tictactoe"),
        ("KuhnPoker", "kuhn_poker"),
        ("LeducPoker", "leduc_poker"),
        ("Goofspiel", "goofspiel"),
        ("LiarsDice", "liars_dice"),
        ("Battleship", "battleship"),
        ("Negotiation", "negotiation"),
        ("Hanabi", "hanabi"),
        ("Codenames", "codenames"),
        ("Avalon", "avalon"),
        ("Werewolf", "werewolf"),
    )
}
"""Gymnasium's ids of the bundled games, and the arguments of `SingleAgentEnv` for each."""


def register() -> None:
    """Register `IDS` with Gymnasium; the first `make` imports the environment itself."""
    from gymnasium.envs import registration

    for name, kwargs in IDS.items():
        # A second registration would make Gymnasium warn.
        if name not in registration.registry:
            registration.register(name, "arena.envs.gymnasium:SingleAgentEnv", kwargs=dict(kwargs))


def register_when_gymnasium_is_imported() -> None:
    """Register now if Gymnasium is already imported, else as soon as it is."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _ImportHook) for finder in sys.meta_path):
        # Gymnasium takes long to import, so arena does not import it for a registration only.
        sys.meta_path.insert(0, _ImportHook())


class _ImportHook(MetaPathFinder):
    """Import hook that registers the ids once, after Gymnasium has been imported.

    It finds no module itself. It stays installed until the module is executed, because a search
    for a module (`importlib.util.find_spec`) does not import it.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        spec = self._find_with_other_finders(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = partial(self._execute, execute)  # type: ignore[method-assign]
        return spec

    def _find_with_other_finders(self, name: str) -> ModuleSpec | None:
        sys.meta_path.remove(self)
        try:
            # Without this finder in the list, or the search would call it again without end.
            return find_spec(name)
        finally:
            sys.meta_path.insert(0, self)

    def _execute(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        execute(module)
        register()
