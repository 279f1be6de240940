"""The family `textarena`: its environments, made on request."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache
from typing import Any

from arena.core.errors import UsageError
from arena.core.game import Game
from arena.plugins.families import FamilyGame
from games.adapters.textarena import library
from games.adapters.textarena.game import TextArenaGame

FAMILY = "textarena"


class TextArenaFamily:
    """All environments that TextArena registers, by their ids."""

    def game_class(self, name: str) -> type[Game]:
        """Return the class of an environment. Raises UsageError or MissingDependency."""
        names = library.environment_ids()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise UsageError(f"TextArena has no game '{name}'; {hint}'arena games {FAMILY}'")
        return _game_class(name)

    def games(self) -> Sequence[FamilyGame]:
        """Return one game for each environment, in alphabetical order; not its variants."""
        first = dict[str, str]()
        for name in sorted(library.environment_ids(), key=lambda each: (len(each), each)):
            first.setdefault(name.partition("-v")[0], name)
        return [
            FamilyGame(f"{FAMILY}/{name}", title, "", "", ("speech",))
            for title, name in sorted(first.items())
        ]


TEXTARENA = TextArenaFamily()


@cache
def _game_class(name: str) -> type[TextArenaGame]:
    contents: dict[str, Any] = {
        "__doc__": f"{name}, as TextArena implements it.",
        "name": f"{FAMILY}/{name}",
        "summary": f"{name} (TextArena)",
    }
    return type(f"TextArena_{name}", (TextArenaGame,), contents)
