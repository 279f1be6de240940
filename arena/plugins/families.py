"""Families of games: many games that one plugin takes from another library.

A plugin registers a family with `catalog.add("game_family", NAME, "module:OBJECT", summary)`. Its
games are called `NAME/GAME`, wherever a name of a game is expected; a replay stores that name.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from arena.core.errors import UsageError
from arena.core.game import Game


@dataclass(frozen=True, slots=True)
class FamilyGame:
    """One game of a family, as `arena list games FAMILY` lists it."""

    name: str
    """With the family: `open_spiel/kuhn_poker`."""
    summary: str
    players: str
    """Number of seats, for example `2` or `2-10`; empty if it is not known without loading."""
    information: str
    """`perfect`, `imperfect`, or empty if the library does not say."""
    features: tuple[str, ...] = ()
    """What works beyond play and replay, for example `arrays` or `leak test`."""
    problem: str = ""
    """Why the game cannot be played as it is; empty if it can."""


class GameFamily(Protocol):
    """What a plugin registers for a family."""

    def game_class(self, name: str) -> type[Game]:
        """Return the class of the game `name`, without the family; the same one at each call.

        Raises:
            UsageError: The family has no such game.
            MissingDependency: The library is not installed; the message names the extra.
        """

    def games(self) -> Sequence[FamilyGame]:
        """Return the games of the family, in alphabetical order."""


def unknown_game(family: str, library: str, name: str, known: Collection[str]) -> UsageError:
    """Return the error of a name that a family does not have; it proposes the nearest one."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return UsageError(f"{library} has no game '{name}'; {hint}'arena list games {family}'")
