"""Games of a library in a process of their own, which native code may end or block.

Libraries check few of their parameters: some values end the process by a signal, others take all
memory or all time. `LibraryProcess` is arena's side, `serve` the library's; an `ApartState` is a
position whose library lives on the other side. Requests and answers are pickled.

The process keeps the positions that were used last. A request for another one is answered by
`UnknownPosition`; then the moves are sent, and played again. So a position outlives its process,
and copies of it cost nothing before they are used.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any

from arena import CHANCE, Action, ActionSet, ChanceOutcome, Event, SpeechOffer, State, Step
from arena.core.errors import ArenaError, UsageError
from arena.core.observation import ObservedGame
from arena.core.text import one_line, shorten
from arena.llm.environment import without_keys
from arena.plugins.catalog import game_class

MOST_SECONDS = 20
"""Time of one request, after which the process ends; the import of the library is not counted."""

MOST_ANSWER = 64 * 2**20
"""Bytes of an answer."""

MOST_RUNNING = 4
"""Processes that run at once. One more ends the one that was used longest ago; its positions are
played again when they are needed."""

SERVED = "ARENA_LIBRARY_PROCESS"
"""Variable of the environment that is set in the process of a library."""


@dataclass(frozen=True, slots=True)
class PositionReport:
    """A position as the process describes it."""

    to_act: tuple[int, ...]
    turn: int
    events: Sequence[Event]
    """New ones."""
    legal: Mapping[int, tuple[Sequence[int], Sequence[SpeechOffer]]]
    """Numbers in the game's table of actions, and offers of speech, by player."""
    returns: tuple[float, ...]


class ProcessEnded(ArenaError):
    """The process of a library ended before it had answered; the message says how."""


class UnknownPosition(ArenaError):
    """The process does not have this position, or has it no longer."""


class LibraryProcess:
    """The process of one game; it is started on first use, and again after its end.

    Args:
        name: The game.
        options: JSON of those that differ from the defaults.
    """

    def __init__(self, name: str, options: str) -> None:
        self.name, self.options = name, options
        self.lock = threading.RLock()
        """Held during requests that belong together."""
        self._owner = 0
        self._end: weakref.finalize[..., LibraryProcess] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return process_for, (self.name, self.options)

    @property
    def _is_running(self) -> bool:
        # After a fork, the process belongs to the parent.
        is_own = self._end is not None and self._owner == os.getpid()
        return is_own and self._process.poll() is None

    def _start(self) -> None:
        self.stop()
        ours, theirs = Pipe()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `_end_process` closes it.
        program = f"from games.adapters.process import serve; serve({theirs.fileno()})"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[theirs.fileno()],
            env={
                **without_keys(),
                SERVED: "1",
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )
        theirs.close()
        self._connection, self._owner = ours, os.getpid()
        self._end = weakref.finalize(
            self, _end_process, self._process, ours, self._errors, self._owner
        )
        _keep_running(self)
        self._exchange(("load", self.name, self.options))
        try:
            self._facts: dict[str, Any] = self._exchange(("make",))
        except ArenaError:
            self.stop()
            raise

    def facts(self) -> dict[str, Any]:
        """Return the attributes of the game. Raises UsageError if it cannot be played."""
        try:
            with self.lock:
                if not self._is_running:
                    self._start()
                return dict(self._facts)
        except UsageError:
            raise
        except ArenaError as error:
            raise UsageError(f"{error}; it cannot be played with {self.options}") from None

    def call(self, request: str, *arguments: object) -> Any:
        """Return the answer to a request.

        Raises ProcessEnded, or the error of the request.
        """
        with self.lock:
            if not self._is_running:
                self._start()
            return self._exchange((request, *arguments))

    def _exchange(self, request: tuple[object, ...]) -> Any:
        try:
            self._connection.send(request)
            answer = pickle.loads(self._connection.recv_bytes(MOST_ANSWER))
        except (EOFError, OSError):
            death = self._death()
            self.stop()
            raise ProcessEnded(f"{self.name}: {death}") from None
        except BaseException:  # Ctrl-C, for example: the answer to come would serve as the next.
            self.stop()
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _death(self) -> str:
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:  # It lives: the length of its answer was refused.
            return f"its answer is longer than {MOST_ANSWER >> 20} MiB"
        if code == -signal.SIGALRM:
            return f"its library did not answer within {MOST_SECONDS} s"
        ending = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._errors.seek(0)
        lines = self._errors.read(2**16).decode(errors="replace").split("\n")
        last = next((shorten(one_line(line)) for line in reversed(lines) if line.strip()), "")
        return f"its process was ended {ending}" + (f" ({last})" if last else "")

    def stop(self) -> None:
        """End the process; the next request starts another."""
        if self._end is not None:
            self._end()
            self._end = None


# Weak: the facts of a process may be large, and requests may name any number of games.
_known: weakref.WeakValueDictionary[tuple[str, str], LibraryProcess] = weakref.WeakValueDictionary()
_running: list[LibraryProcess] = []
"""The one that was started last is the last."""


def is_library_process() -> bool:
    """Return whether this is the process of a library, which plays its game itself."""
    return SERVED in os.environ


def process_for(name: str, options: str) -> LibraryProcess:
    """Return the process of a game; the same one for equal options, which are written as JSON."""
    return _known.setdefault((name, options), LibraryProcess(name, options))


def _keep_running(process: LibraryProcess) -> None:
    _running[:] = [*(each for each in _running if each is not process), process]
    for oldest in _running[:-MOST_RUNNING]:
        # One that answers now is ended at another time.
        if oldest.lock.acquire(blocking=False):
            oldest.stop()
            oldest.lock.release()
            _running.remove(oldest)


def _end_process(
    process: subprocess.Popen[bytes], connection: Connection, errors: IO[bytes], owner: int
) -> None:
    connection.close()
    errors.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()


class ApartState(State):
    """A position whose library is in a process."""

    def __init__(self, game: ObservedGame, process: LibraryProcess) -> None:
        super().__init__(game)
        self.process = process
        self.steps: tuple[Step, ...] = ()
        self._key = secrets.randbits(64)
        """Name of the position in the process, which copies share until they change."""
        self._legal: dict[int, ActionSet] = {}
        self._returns: tuple[float, ...] = ()
        self._take(process.call("start", self._key, ()))

    def _ask(self, request: str, *arguments: object) -> Any:
        with self.process.lock:
            try:
                return self.process.call(request, self._key, *arguments)
            except UnknownPosition:
                self.process.call("start", self._key, self.steps)
                return self.process.call(request, self._key, *arguments)

    def _take(self, position: PositionReport) -> None:
        self.to_act, self.turn, self._returns = position.to_act, position.turn, position.returns
        for event in position.events:
            self.log.append(event)
        table = self.game.actions
        self._legal = {
            player: table.subset([table[number] for number in numbers], offers)
            for player, (numbers, offers) in position.legal.items()
        }

    def _legal_actions(self, player: int) -> ActionSet:
        return self._legal[player]

    def _is_possible(self, action: Action) -> bool:
        return True  # The other side checks it before it changes anything.

    def _apply(self, player: int, action: Action) -> None:
        key = secrets.randbits(64)
        try:
            position = self._ask("apply", player, action, key)
        except ProcessEnded as error:
            raise ArenaError(f"{error}; at '{action}'") from None
        self.steps += (Step(player, action),)
        self._key = key
        self._take(position)

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        outcomes: Sequence[ChanceOutcome] = self._ask("ask", "chance_outcomes")
        return outcomes

    def sample_chance(self, rng: random.Random) -> Action:
        action: Action
        action, after = self._ask("draw", rng)
        rng.setstate(after)
        return action

    def _read_chance(self, text: str) -> Action:
        action: Action = self._ask("ask", "parse", text)
        return action

    def returns(self) -> tuple[float, ...]:
        return self._returns

    def reason(self) -> str:
        return str(self._ask("ask", "reason"))


# The library's side


MOST_MEMORY = 4 * 2**30
"""Bytes that the process may address."""

MOST_ACTIONS = 1_000_000
"""Actions of a game."""

MOST_POSITIONS = 64
"""Positions that the process keeps."""


class LibraryServer:
    """The game and its positions, on the side of the library."""

    def __init__(self) -> None:
        self._positions: dict[int, Any] = {}

    def load(self, name: str, options: str) -> None:
        """Import the library. The game is made by `make`, within the limits."""
        self._kind, self._options = game_class(name), json.loads(options)

    def make(self) -> dict[str, Any]:
        """Make the game; return its facts. Raises UsageError if it offers no first move."""
        game: Any = self._kind(**self._options)
        self._game = game
        state, rng = game.initial_state(), random.Random(0)
        while state.to_act == (CHANCE,):
            state.apply(CHANCE, state.sample_chance(rng))
        if not state.to_act or not all(map(state._legal_actions, state.to_act)):
            raise UsageError(f"{game.name}: no move is legal at the start with {self._options}")
        if len(game.actions) > MOST_ACTIONS:
            raise UsageError(f"{game.name}: {len(game.actions):,} moves; the most are 1,000,000")
        return {name: getattr(game, name) for name in game.facts}

    def _position(self, key: int) -> Any:
        """Return a position, which is the latest one now."""
        if key not in self._positions:
            raise UnknownPosition(f"no position {key}")
        state = self._positions[key] = self._positions.pop(key)
        return state

    def _keep(self, key: int, state: Any) -> None:
        self._positions[key] = state
        if len(self._positions) > MOST_POSITIONS:
            del self._positions[next(iter(self._positions))]

    def start(self, key: int, steps: Sequence[Step]) -> PositionReport:
        """Play a new position up to where it was."""
        state = self._game.initial_state().apply_all(steps)
        self._keep(key, state)
        return self._snapshot(state)

    def apply(self, key: int, player: int, action: Action, new_key: int) -> PositionReport:
        """Change a position, which gets a new key. If the library fails, it is lost."""
        state = self._position(key)
        del self._positions[key]
        before = len(state.log.events)
        state.apply(player, action)
        self._keep(new_key, state)
        return self._snapshot(state, before)

    def _snapshot(self, state: Any, since: int = 0) -> PositionReport:
        index, legal = self._game.actions.index, {}
        for player in state.to_act:
            offered = state.legal_actions(player)
            legal[player] = [index[action] for action in offered], offered.speech
        events = state.log.events[since:]
        return PositionReport(state.to_act, state.turn, events, legal, state.returns())

    def ask(self, key: int, method: str, *arguments: object) -> object:
        """Return what a method of a position returns."""
        return getattr(self._position(key), method)(*arguments)

    def draw(self, key: int, rng: random.Random) -> tuple[Action, object]:
        """Return a result of chance and the state of the generator after the draw."""
        return self._position(key).sample_chance(rng), rng.getstate()

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
            request, *arguments = connection.recv()
        except EOFError:
            return
        if request != "load":
            # The default action of this signal ends the process, also within native code.
            signal.alarm(MOST_SECONDS)
        try:
            answer = getattr(server, request)(*arguments)
        except MemoryError:
            answer = UsageError(f"the game needs more than {MOST_MEMORY >> 30} GiB of memory")
        except ArenaError as error:
            answer = error
        except Exception as error:  # The edge of a library, which may fail in any way.
            answer = ArenaError(shorten(one_line(f"{type(error).__name__}: {error}")))
        connection.send(answer)
        signal.alarm(0)
