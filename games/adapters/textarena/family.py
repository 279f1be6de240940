"""The family `textarena`: its environments, made on request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from arena.core.game import Game
from arena.plugins.families import FamilyGame, unknown_game
from games.adapters.textarena import library
from games.adapters.textarena.game import TextArenaGame

FAMILY = "textarena"


class TextArenaFamily:
    """All environments that TextArena registers, by their ids."""

    def game_class(self, name: str) -> type[Game]:
        """Return the class of an environment. Raises UsageError or MissingDependency."""
        names = library.environment_ids()
        if name not in names:
            raise unknown_game(FAMILY, "TextArena", name, names)
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
