"""arena: language models play, are measured at, and are trained on games that hide things.

    import arena

    game = arena.make_game("cluedo", players=3)
    match = arena.Match(game, ["bot:oracle", "bot:detective", "bot:novice"], seed=7)
    episode = await arena.play(match)

Names are imported when they are first used, so that `import arena` costs next to nothing. The file
`__init__.pyi` lists them: type checkers read it, and so does this module.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from arena.envs.registration import register_when_gymnasium_is_imported

_MODULE_OF = {
    alias.name: str(node.module)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}

__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'arena' has no attribute '{name}'")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


register_when_gymnasium_is_imported()
