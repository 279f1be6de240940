"""Base of games that another library plays: actions, events, texts and arrays."""

from __future__ import annotations

import json
import math
import pkgutil
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import Field, JsonValue, create_model

from arena import (
    Action,
    ArraySpec,
    Event,
    Game,
    GameArrays,
    GameText,
    Observation,
    Panel,
    State,
    Tabletop,
)
from arena.core.errors import UsageError
from arena.core.game import GameOptions
from arena.core.observation import TextLevel
from arena.core.text import did_you_mean, printable
from arena.plugins.catalog import FamilyGame, make_game
from games.adapters.process import ApartState, LibraryProcess, is_library_process, process_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_LINES, WIDTH = 28, 100
"""Lines and columns of a text in a view."""

R = TypeVar("R")

MOST_MOVES = 3
"""Lines of moves beside a long text."""


class LibraryGame(Game):
    """A game of another library. A subclass is made for each game, with its `name` and `Options`.

    With its default options, a game is played here, unless the library may block with these too.
    All other options may come from a file or a request, so that the game has its own process.

    Its observations consist of the texts that the library shows to a seat (`LibraryObserved`) and
    of the moves that the seat knows.
    """

    Text = "games.adapters.library_game:LibraryText"
    Arrays = "games.adapters.library_game:LibraryArrays"
    View = "games.adapters.library_game:LibraryView"
    Position: ClassVar[str]
    """`"module:Class"` of the positions whose library is in this process."""
    title: ClassVar[str]
    library: ClassVar[str]
    default_max_turns: int | None = 2000  # Few libraries state a bound.
    options: GameOptions
    array_size: int = 0
    """Number of values that the library shows as an array; 0 for none."""
    texts_add_up = False
    """True if a text shows only what is current, so that earlier ones must be read too."""
    hides = True
    """True if some information is hidden."""
    players: int
    always_apart: ClassVar[bool] = False
    """True if the default options have a process of their own, too."""
    facts: ClassVar[tuple[str, ...]] = (
        *("actions", "array_size", "hides", "openings", "players", "texts_add_up"),
    )
    """Attributes that a game gets from its process."""

    def __init__(self, /, **options: JsonValue) -> None:
        super().__init__(**options)
        self.is_apart = not is_library_process() and (
            self.always_apart or self.options != type(self).Options()
        )
        if process := process_of(self):
            self.__dict__.update(process.facts())
        else:
            self._load()

    @abstractmethod
    def _load(self) -> None:
        """Load the game of the library. Raises UsageError for options that it refuses."""

    def initial_state(self) -> State:
        if process := process_of(self):
            return ApartState(self, process)
        state: State = pkgutil.resolve_name(self.Position)(self)
        return state

    @property
    def num_players(self) -> int:
        return self.players

    def __reduce__(self) -> tuple[Any, ...]:
        # By name: the class is made at run time, so it cannot be imported by another process.
        return partial(make_game, self.name, **self.options.model_dump()), ()

    @cached_property
    def openings(self) -> tuple[LibraryObserved | None, ...]:
        """The observation of each seat before the first move; the same in every game."""
        return (None,) * self.num_players

    def latest(self, events: Sequence[Event], player: int) -> LibraryObserved | None:
        """Return what the library has last shown to a seat."""
        for event in reversed(events):
            if isinstance(event, LibraryObserved) and event.player == player:
                return event
        return self.openings[player]


# Neither a process nor what it computes is an attribute of a game, since observations refer to
# their game: a seat could ask the process for the private events of others.


def process_of(game: LibraryGame) -> LibraryProcess | None:
    """Return the process in which the library of a game is; None if it is this one."""
    if not game.is_apart:
        return None
    options = game.options.model_dump(exclude_defaults=True)
    return process_for(game.name, json.dumps(options, sort_keys=True))


def compute(
    game: LibraryGame, function: Callable[..., R], *arguments: object, rng: random.Random
) -> R:
    """Return `function(game, *arguments, rng)`, called where the library is."""
    process = process_of(game)
    if process is None:
        return function(game, *arguments, rng)
    result: R
    result, after = process.call("compute", function, arguments, rng)
    rng.setstate(after)
    return result


class LibraryText(GameText):
    """Texts of the library: its own, and the moves."""

    game: LibraryGame

    def rules(self) -> str:
        game = self.game
        information = "some information is hidden" if game.hides else "nothing is hidden"
        return (
            f"{game.title} ({game.name}), {game.num_players} players, as {game.library} "
            f"implements it; {information}.{self.about()}\n"
            "Your action: one of those listed at your turn, written exactly like there. For "
            f"example: {game.actions[0]}"
        )

    def about(self) -> str:
        """Return more sentences about a game of this library; by default none."""
        return ""

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
        lines = [] if since else [self._introduction(observation)]
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
        if choices := list(observation.legal_actions.notations()):
            if labels := self._labels(observation):
                choices = [f"{a} ({label})" for a, label in zip(choices, labels, strict=True)]
            lines.append(f"Your actions: {' | '.join(choices)}")
        return "\n".join(line for line in lines if line)

    def labels(self, observation: Observation) -> Mapping[str, Action]:
        """Return the legal moves by the library's notation, as far as it tells them apart."""
        labels = self._labels(observation)
        counts, moves = Counter(labels), zip(labels, observation.legal_actions, strict=False)
        return {label: move for label, move in moves if counts[label] == 1}

    def _labels(self, observation: Observation) -> Sequence[str]:
        """Return the library's text of each legal move; () where it gives none."""
        latest = self.game.latest(observation.events, observation.player)
        known = latest is not None and len(latest.labels) == len(observation.legal_actions)
        return latest.labels if latest and known else ()


class LibraryArrays(GameArrays):
    """The values that the library shows, as one array."""

    game: LibraryGame

    @cached_property
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
    """The library's latest text for the viewer, and the moves since then."""

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


class LibraryFamily(ABC):
    """The games of one library, by the names that it gives them."""

    name: ClassVar[str]
    library: ClassVar[str]
    boards: Sequence[str] = ()

    @abstractmethod
    def known(self) -> Collection[str]:
        """Return the names of all games. Raises MissingDependency."""

    @abstractmethod
    def make(self, name: str) -> type[Game]:
        """Return a new class of this game."""

    @abstractmethod
    def listed(self, name: str) -> FamilyGame:
        """Return the line of this game in the list of games."""

    def game_class(self, name: str) -> type[Game]:
        """Return the class of a game. Raises UsageError or MissingDependency."""
        known = self.known()
        if name not in known:
            near = did_you_mean(name, known)
            raise UsageError(
                f"{self.library} has no game '{name}'; {near}'arena list games {self.name}'"
            )
        return _class_of(self, name)

    def games(self) -> Sequence[FamilyGame]:
        """Return all games, in alphabetical order."""
        return [self.listed(name) for name in sorted(self.known())]

    def new_class(
        self, base: type[LibraryGame], name: str, title: str, **attributes: Any
    ) -> type[Any]:
        """Return a subclass of `base` for one game; `title` is its name in words."""
        described = {"name": f"{self.name}/{name}", "title": title, "library": self.library}
        described["summary"] = f"{title} ({self.library})"
        described["__doc__"] = f"{title}, as {self.library} implements it."
        return type(f"{self.name}_{name}", (base,), {**described, **attributes})


@cache
def _class_of(family: LibraryFamily, name: str) -> type[Game]:
    return family.make(name)


def options_class(
    library: str,
    name: str,
    defaults: Mapping[str, JsonValue],
    base: type[GameOptions] = GameOptions,
) -> type[GameOptions]:
    """Return a model of the parameters of a game, with the library's defaults and their types."""
    note = f"Parameter of {library}'s {name}."
    fields: dict[str, Any] = {
        parameter: (type(default), Field(default, description=note))
        for parameter, default in defaults.items()
    }
    return create_model(f"{library}Options_{name}", __base__=base, **fields)


# Actions and events


NO_ARRAY = b""


@dataclass(frozen=True, slots=True)
class LibraryMove(Action):
    """A move by its number in the library; `text` is the same at every position."""

    number: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class LibraryChance(Action, template="chance {self.number}: {self.label}"):
    """A result of chance by its number in the library."""

    number: int
    label: str
    """The library's own text, which may not tell all results apart."""


@dataclass(frozen=True, slots=True)
class LibrarySeed(Action, template="seed {self.seed}"):
    """Chance: the seed from which the library draws everything that follows."""

    seed: int


@dataclass(frozen=True, slots=True)
class LibraryMoved(Event):
    """A player has made a move; public only in games without hidden information."""

    player: int
    move: str
    public: bool

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None if self.public else (self.player,)


@dataclass(frozen=True, slots=True)
class LibraryDrew(Event):
    """A result of chance. With hidden information the library's texts show who knows what of it,
    and only viewers who see everything get the event."""

    result: str
    public: bool

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None if self.public else ()


@dataclass(frozen=True, slots=True)
class LibraryObserved(Event):
    """The library's observation of one player: text, labels of its moves, and an array."""

    player: int
    text: str
    labels: tuple[str, ...]
    """The library's text of each legal move, in order, where it depends on the position."""
    array: bytes
    """Values as float32, for `arrays`; not part of a replay, which computes them again."""
    public: bool

    @property
    def audience(self) -> tuple[int, ...] | None:
        return None if self.public else (self.player,)

    def shown_to(self, seat: int | None) -> bool:
        """Return False: the table shows it already."""
        return False

    def to_json(self) -> dict[str, JsonValue]:
        """Return the event without its array."""
        fields = Event.to_json(self)
        del fields["array"]
        return fields


def one_line_label(text: str) -> str:
    """Return a label of the library on one line, without control characters."""
    # Nearly all labels are in this form already; the check is faster than the change.
    return text if text.isprintable() else " ".join(printable(text).split())


def clean_lines(text: str) -> str:
    """Return a text of the library without control characters; lines and tabs stay."""
    if text.replace("\n", "").isprintable():
        return text.strip("\n")
    lines = (printable(line.expandtabs()).rstrip() for line in text.splitlines())
    return "\n".join(lines).strip("\n")
