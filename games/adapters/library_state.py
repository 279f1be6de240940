"""Positions of libraries: the moves that led to them, which the library can play again."""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from typing import Any, Self

from arena import CHANCE, Action, State, Step
from arena.core.errors import ArenaError
from arena.core.text import one_line, shorten
from games.adapters.library_game import LibraryGame, LibrarySeed

MOST_SEEDS = 2**31
"""Seeds from which chance draws one; the libraries take 31 bits."""

_SEED_TEXT = re.compile(r"seed (\d{1,10})")


class LibraryState(State):
    """A position of a library that draws its own chance, from a seed that is drawn first.

    The library's own object is never copied: it may share generators. A copy, or a position that
    was pickled, plays the moves again.
    """

    game: LibraryGame

    def __init__(self, game: LibraryGame) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.steps: tuple[Step, ...] = ()

    @abstractmethod
    def _change(self, player: int, action: Action) -> None:
        """Apply an action in the library's game, and log what it shows."""

    def _apply(self, player: int, action: Action) -> None:
        try:
            self._change(player, action)
        except Exception as error:  # The edge of a library, which may fail in any way.
            fault = shorten(one_line(f"{type(error).__name__}: {error}"))
            raise ArenaError(
                f"{self.game.name}: the library failed at '{action}': {fault}"
            ) from error
        self.steps += (Step(player, action),)

    def sample_chance(self, rng: random.Random) -> Action:
        return LibrarySeed(rng.randrange(MOST_SEEDS))

    def _is_possible(self, action: Action) -> bool:
        return isinstance(action, LibrarySeed) and 0 <= action.seed < MOST_SEEDS

    def _read_chance(self, text: str) -> Action | None:
        written = _SEED_TEXT.fullmatch(text)
        return LibrarySeed(int(written[1])) if written else None

    def clone(self) -> Self:
        twin = super().clone()
        twin._play_again()
        return twin

    def _play_again(self) -> None:
        """Make the library's object again; the log and the notes stay as they are."""
        fresh = type(self)(self.game)
        for step in self.steps:
            fresh._apply(step.player, step.action)
        self.__dict__.update({**fresh.__dict__, "log": self.log, "_witnessed": self._witnessed})

    def __getstate__(self) -> dict[str, Any]:
        return {"game": self.game, "log": self.log, "steps": self.steps, "_witnessed": {}}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)
        self._play_again()
