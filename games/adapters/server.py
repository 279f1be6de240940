"""The side of the library in a process of its own: a game, its positions, and the limits."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from pydantic import JsonValue

from arena import CHANCE, Action, Step
from arena.core.errors import ArenaError, UsageError
from arena.core.text import one_line, shorten
from arena.plugins.loader import game_class
from games.adapters.process import MOST_SECONDS, PositionReport

MOST_MEMORY = 4 * 2**30
"""Bytes that the process may address."""

MOST_ACTIONS = 1_000_000
"""Actions of a game."""

MOST_OUTCOMES = 60
"""Results of chance that are sent with a position, before they are asked for."""


class LibraryServer:
    """The game and its positions, on the side of the library."""

    def __init__(self) -> None:
        self._positions: dict[int, Any] = {}

    def load(self, name: str, options: Mapping[str, JsonValue]) -> None:
        """Import the library. The game is made by `make`, within the limits."""
        self._kind, self._options = game_class(name), options

    def make(self) -> dict[str, Any]:
        """Make the game; return its facts. Raises UsageError if it offers no first move."""
        game: Any = self._kind(**self._options)
        self._game = game
        state, rng = game.initial_state(), random.Random(0)
        while state.to_act == (CHANCE,):
            state.apply(CHANCE, state.sample_chance(rng))
        if not state.to_act or not all(map(state.legal_actions, state.to_act)):
            raise UsageError(f"{game.name}: no move is legal at the start with {self._options}")
        if len(game.actions) > MOST_ACTIONS:
            raise UsageError(f"{game.name}: {len(game.actions):,} moves; the most are 1,000,000")
        return {name: getattr(game, name) for name in game.facts}

    def forget(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._positions.pop(number, None)

    def start(self, number: int, steps: Sequence[Step]) -> PositionReport:
        """Play a new position up to where it was."""
        state = self._game.initial_state().apply_all(steps)
        self._positions[number] = state
        return self._snapshot(state)

    def clone(self, number: int, twin: int) -> None:
        self._positions[twin] = self._positions[number].clone()

    def apply(self, number: int, player: int, action: Action) -> PositionReport:
        state = self._positions[number]
        before = len(state.log.events)
        state.apply(player, action)
        return self._snapshot(state, before)

    def _snapshot(self, state: Any, since: int = 0) -> PositionReport:
        index, legal, outcomes = self._game.actions.index, {}, None
        if state.to_act == (CHANCE,) and state.num_outcomes <= MOST_OUTCOMES:
            outcomes = state.chance_outcomes()
        for player in state.to_act:
            offered = state.legal_actions(player)
            legal[player] = [index[action] for action in offered], offered.speech
        events = state.log.events[since:]
        return PositionReport(state.to_act, state.turn, events, legal, state.returns(), outcomes)

    def ask(self, number: int, method: str, *arguments: object) -> object:
        """Return what a method of a position returns."""
        return getattr(self._positions[number], method)(*arguments)

    def draw(self, number: int, rng: random.Random) -> tuple[Action, object]:
        """Return a result of chance and the state of the generator after the draw."""
        return self._positions[number].sample_chance(rng), rng.getstate()

    def compute(
        self, function: Callable[..., object], arguments: Sequence[object], rng: random.Random
    ) -> tuple[object, object]:
        """Return the result of a function, and the state of the generator after it."""
        return function(self._game, *arguments, rng), rng.getstate()


def serve(descriptor: int) -> None:
    """Answer the requests of a `LibraryProcess` until its end of the connection is closed."""
    # A terminal sends Ctrl-C to all processes of the group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection, server = Connection(descriptor), LibraryServer()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, hard))
    while True:
        try:
            forgotten, request, *arguments = connection.recv()
        except EOFError:
            return
        if request != "load":
            # The default action of this signal ends the process, also within native code.
            signal.alarm(MOST_SECONDS)
        try:
            server.forget(forgotten)
            answer = getattr(server, request)(*arguments)
        except MemoryError:
            answer = UsageError(f"the game needs more than {MOST_MEMORY >> 30} GiB of memory")
        except ArenaError as error:
            answer = error
        except Exception as error:  # The edge of a library, which may fail in any way.
            answer = ArenaError(shorten(one_line(f"{type(error).__name__}: {error}")))
        connection.send(answer)
        signal.alarm(0)
