"""Positions of libraries that draw their own chance, from one seed at the start."""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

from arena import CHANCE, Action, State
from games.adapters.library_game import LibraryGame, LibrarySeed, library_fault

MOST_SEEDS = 2**31
"""Seeds from which chance draws one; the libraries take 31 bits."""

_SEED_TEXT = re.compile(r"seed (\d{1,10})")


class SeededState(State):
    """A position that is reached by a seed, which chance draws first, and the moves after it.

    The library's own object is never copied: it may share generators. A copy, or a state that was
    pickled, plays the moves again.
    """

    game: LibraryGame

    def __init__(self, game: LibraryGame) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.seed: int | None = None
        self.played: tuple[tuple[int, Action], ...] = ()
        self.env: Any = None

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Start the library's game from a seed."""

    @abstractmethod
    def move(self, player: int, action: Action) -> None:
        """Let a player move in the library's game."""

    @abstractmethod
    def show(self) -> None:
        """Set who must act, and log what the library has shown since the last call."""

    def guarded(self) -> AbstractContextManager[None]:
        """Return a context in which the library is called; by default it changes nothing."""
        return nullcontext()

    def sample_chance(self, rng: random.Random) -> Action:
        return LibrarySeed(rng.randrange(MOST_SEEDS))

    def _is_possible(self, action: Action) -> bool:
        return isinstance(action, LibrarySeed) and 0 <= action.seed < MOST_SEEDS

    def _read_chance(self, text: str) -> Action | None:
        written = _SEED_TEXT.fullmatch(text)
        return LibrarySeed(int(written[1])) if written else None

    def _apply(self, player: int, action: Action) -> None:
        try:
            with self.guarded():
                if isinstance(action, LibrarySeed):
                    self.seed = action.seed
                    self.begin(action.seed)
                else:
                    self.played += ((player, action),)
                    self.move(player, action)
                self.show()
        except Exception as error:  # The edge of a library, which may fail in any way.
            raise library_fault(self.game, action, error) from error

    def clone(self) -> Self:
        twin = super().clone()
        twin._play_again()
        return twin

    def _play_again(self) -> None:
        """Make the library's object again; the log and everything else stay as they are."""
        if self.seed is None:
            return
        kept = dict(self.__dict__)
        fresh = type(self)(self.game)
        fresh._apply(CHANCE, LibrarySeed(self.seed))
        for player, action in self.played:
            fresh._apply(player, action)
        self.__dict__.update(fresh.__dict__)
        # Notes and log are those of the copy; the rest was computed again and is equal.
        for name in ("log", "_witnessed"):
            setattr(self, name, kept[name])

    def __getstate__(self) -> dict[str, Any]:
        fields = super().__getstate__()
        return {name: fields[name] for name in ("game", "log", "seed", "played")}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        type(self).__init__(self, fields["game"])
        self.__dict__.update(fields)
        self._play_again()
