"""Base of games that another library plays: texts and arrays from what the library shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import Action, ArraySpec, Event, Game, GameArrays, GameText, Observation, Panel, Tabletop
from arena.core.errors import ArenaError
from arena.core.observation import TextLevel
from arena.core.text import one_line, shorten
from arena.plugins.loader import make_game
from games.adapters.moves import LibraryDrew, LibraryMoved, LibraryObserved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arena.core.game import GameOptions


MOST_LINES, WIDTH = 28, 100
"""Lines and columns of a text in a view."""

MOST_MOVES = 3
"""Lines of moves beside a long text."""


class LibraryGame(Game):
    """A game of another library. A subclass is made for each game, with its `name` and `Options`.

    Its observations consist of the texts that the library shows to a seat (`LibraryObserved`) and
    of the moves that the seat knows.
    """

    Text = "games.adapters.library_game:LibraryText"
    Arrays = "games.adapters.library_game:LibraryArrays"
    View = "games.adapters.library_game:LibraryView"
    options: GameOptions
    array_size: int = 0
    """Number of values that the library shows as an array; 0 for none."""
    texts_add_up = False
    """Whether a text shows only what is current, so that earlier ones must be read too."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By name: the class is made at run time, so it cannot be imported by another process.
        return _remade, (self.name, self.options.model_dump())

    @cached_property
    def openings(self) -> tuple[LibraryObserved | None, ...]:
        """What each seat sees before the first move; the same in every game."""
        return (None,) * self.num_players

    def latest(self, events: Sequence[Event], player: int) -> LibraryObserved | None:
        """Return what the library has last shown to a seat."""
        for event in reversed(events):
            if isinstance(event, LibraryObserved) and event.player == player:
                return event
        return self.openings[player]


class LibraryText(GameText):
    """Texts of the library: its own, and the moves."""

    game: LibraryGame

    def narrate(self, event: Event) -> str:
        match event:
            case LibraryMoved(player, move):
                return f"{self.game.seat_names[player]}: {move}"
            case LibraryObserved(text=text):
                return text
            case LibraryDrew(result):
                return f"Chance: {result}"
        return str(event)

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        player = observation.player
        lines = [] if since else [f"You are {self.game.seat_names[player]}."]
        latest = self.game.latest(observation.events, player)
        if not since and latest is self.game.openings[player] and latest is not None:
            lines.append(latest.text)
        for event in observation.events_since(since):
            # A later text of the library contains the earlier ones, or a board that has changed.
            if (
                isinstance(event, LibraryObserved)
                and event is not latest
                and not self.game.texts_add_up
            ):
                continue
            # In a game without hidden information the other seats' texts show the same position.
            if not isinstance(event, LibraryObserved) or event.player == player:
                lines.append(self.narrate(event))
        if observation.legal_actions:
            lines.append("Your actions: " + " | ".join(self._choices(observation, latest)))
        return "\n".join(line for line in lines if line)

    def _choices(self, observation: Observation, latest: LibraryObserved | None) -> list[str]:
        texts = list(observation.legal_actions.notations())
        labels = latest.labels if latest else ()
        if len(labels) != len(texts):
            return texts
        return [f"{text} ({label})" for text, label in zip(texts, labels, strict=True)]


class LibraryArrays(GameArrays):
    """The values that the library shows, as one array."""

    game: LibraryGame

    @property
    def specs(self) -> Mapping[str, ArraySpec]:
        if not self.game.array_size:
            return {}
        # The libraries do not name bounds.
        return {"observation": ArraySpec((self.game.array_size,), -math.inf, math.inf, "float32")}

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the library's values, flat; zeros before it has shown any."""
        import numpy as np

        if not self.game.array_size:
            return {}
        latest = self.game.latest(observation.events, observation.player)
        if latest is None or not latest.array:
            return {"observation": np.zeros(self.game.array_size, np.float32)}
        return {"observation": np.frombuffer(latest.array, np.float32)}


class LibraryView:
    """What the library has last shown to the viewer, and the moves since then."""

    def __init__(self, game: LibraryGame, seat: int | None) -> None:
        self._game = game
        self._shown: tuple[str, ...] = ()
        self._player = 0
        self._moves: tuple[str, ...] = ()

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        if isinstance(event, LibraryObserved):
            self._player, self._moves = event.player, ()
            self._shown = tuple(event.text.splitlines())
        else:
            lines = self._game.text.narrate(event).splitlines()
            self._moves = (*self._moves, *lines)[-MOST_LINES:]

    def tabletop(self) -> Tabletop:
        """Return the table now; long texts are cut at the top, where the past is."""
        shown = self._shown[-MOST_LINES:]
        moves = self._moves[-max(MOST_MOVES, MOST_LINES - len(shown)) :]
        names = self._game.seat_names
        panels = [
            Panel(title, lines=tuple(map(_cut, lines)), fixed_width=True)
            for title, lines in ((f"View of {names[self._player]}", shown), ("Moves", moves))
        ]
        return Tabletop(tuple(panel for panel in panels if panel.lines))


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def library_fault(game: LibraryGame, action: Action, error: Exception) -> ArenaError:
    """Return an error of the library at a move as one line."""
    fault = shorten(one_line(f"{type(error).__name__}: {error}"))
    return ArenaError(f"{game.name}: the library failed at '{action}': {fault}")


def _remade(name: str, options: dict[str, Any]) -> Game:
    return make_game(name, **options)
