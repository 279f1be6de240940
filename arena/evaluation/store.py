"""A run of an evaluation or a tournament as a folder: `run.json` and `games.jsonl`.

`run.json` says what is played: game, settings and schedule. It is replaced whole. `games.jsonl` has
a line for each finished game, which is appended and flushed as soon as the game ends. A line that a
crash has cut off is dropped, so that game is played again; no other line is lost.

One run writes at a time, others may read meanwhile. A folder may come from an unknown source, so
all that is read is checked and bounded in size, and only regular files are opened.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from filelock import Timeout
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FailFast, Field, JsonValue, TypeAdapter, ValidationError

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.spec import redacted
from arena.core.text import first_fault, shorten, unique_json
from arena.core.version import __version__
from arena.episodes.files import is_locked, locked, open_regular, write_whole
from arena.episodes.record import Printable
from arena.evaluation.records import RESULTS, RUN, Count, GameResult, Integer, Slot
from arena.evaluation.scoring import check_returns
from arena.plugins.catalog import make_game

FORMAT: Literal[1] = 1
"""Number in run.json. Raise it with each change of the format."""
LOCK = "run.lock"
"""Name of the lock in the folder; it may be deleted when no run writes."""
MAX_RUN_BYTES, MAX_LINE_BYTES = 32 * 2**20, 2**20
"""Bytes of run.json, and of a line of games.jsonl, at most."""
MAX_VALUES, MAX_PLAYERS, MAX_MEASURES = 4_000_000, 1000, 2000
"""Values in run.json, players and measures of a run at most: memory grows with them."""
BEGINNING = re.compile(rb'\{"slot":\{"number":(\d{1,9}),')
"""Beginning of a line of games.jsonl, with the number of the game."""

Kind = Literal["eval", "tournament"]
_GAME = TypeAdapter(GameResult)


class PlannedGame(NamedTuple):
    """A game of the schedule; its number is its place."""

    seed: Integer
    role: Literal["player", "baseline", "table"]
    seat: Count | None
    """The seat under test; None if all are."""
    players: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Place of each seat's player in the list of players."""


class Experiment(BaseModel):
    """Content of run.json: what is played, and the schedule. It contains no secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1] = FORMAT
    kind: Kind
    game: Printable
    options: dict[str, JsonValue]
    settings: dict[str, JsonValue]
    """Settings that must be equal for a run to be resumed."""
    created: datetime = Field(default_factory=lambda: datetime.now(UTC))
    arena: Printable = __version__
    """Version of arena that created the folder."""
    looks: tuple[Count, ...] = ()
    """Sizes of the schedule at which results were shown."""
    players: Annotated[tuple[Printable, ...], Field(max_length=MAX_PLAYERS)] = ()
    """SPECs, in the order in which they were added."""
    # Without the first fault's followers, which could be millions.
    schedule: Annotated[tuple[PlannedGame, ...], FailFast()] = ()

    @property
    def seed(self) -> int:
        """Seed of the run. Raises ArenaError if the settings have none."""
        seed = self.settings.get("seed")
        if not isinstance(seed, int):
            raise ArenaError(f"the settings of the run hold no seed, but {seed!r}")
        return seed

    def slots(self) -> list[Slot]:
        """Return the schedule with SPECs. Raises ValueError for a seat or player without place."""
        slots, known = [], len(self.players)
        for number, (seed, role, seat, places) in enumerate(self.schedule):
            if max(places) >= known or (seat is not None and seat >= len(places)):
                raise ValueError(f"game {number} of the schedule has no such seat or player")
            if (role == "table", seat is None) != (self.kind == "tournament",) * 2:
                raise ValueError(f"game {number} of the schedule is not one of {self.kind}")
            specs = tuple(self.players[place] for place in places)
            slots.append(Slot(number, seed, specs, role, seat))
        return slots

    def with_slots(self, slots: Sequence[Slot]) -> dict[str, object]:
        """Return the fields of a schedule with these slots."""
        places = {player: place for place, player in enumerate(self.players)}
        schedule = [
            (each.seed, each.role, each.seat,
             [places.setdefault(spec, len(places)) for spec in each.specs])
            for each in slots
        ]  # fmt: skip
        return {"players": tuple(places), "schedule": schedule}


class Results:
    """The folder of a run: its experiment, its schedule, and the games that are finished.

    Each method raises ArenaError, with the path and the remedy, if the folder cannot be read or
    written; finished games are kept.
    """

    def __init__(self, folder: Path, resources: ExitStack, *, writes: bool = False) -> None:
        """Use `create`, `open` or `read` instead."""
        self.folder = folder
        self.experiment = _read_experiment(folder)
        self.slots = self.experiment.slots()
        """All games in order, played or not; their SPECs are without secrets."""
        path = folder / RESULTS
        self._lines = resources.enter_context(BufferedReader(open_regular(path)))
        self._writer: FileIO | None = None
        if writes:
            self._writer = resources.enter_context(open_regular(path, os.O_WRONLY))
        self._places: dict[int, int] = {}
        """Offset of the line of each finished game."""
        self._end = 0
        """Offset after the last whole line that was read or written."""
        self._scan()
        if self._writer:  # Without a line that was cut off: its game is played again.
            self._writer.truncate(self._end)
        self._resources = resources.pop_all()

    @staticmethod
    def create(
        folder: Path | str,
        kind: Kind,
        game: str,
        options: Mapping[str, JsonValue],
        settings: Mapping[str, JsonValue],
    ) -> Results:
        """Start a run in a folder that has none, and open it for writing."""
        folder = Path(folder)
        with _translated(folder, "write"), ExitStack() as resources:
            fields = {"kind": kind, "game": game, "options": options, "settings": settings}
            experiment = Experiment.model_validate(fields)
            folder.mkdir(parents=True, exist_ok=True)
            resources.enter_context(locked(folder.resolve() / LOCK))
            # The file of games first: a creation that is killed leaves no run without it.
            if (folder / RUN).exists() or _touch(folder / RESULTS):
                raise ArenaError(f"{folder / RUN} exists; resume it, or choose another --out")
            write_whole(folder / RUN, experiment.model_dump_json() + "\n")
            return Results(folder, resources, writes=True)

    @staticmethod
    def open(folder: Path | str) -> Results:
        """Open an existing run for writing."""
        folder = Path(folder)
        with _translated(folder, "write"), ExitStack() as resources:
            _read_experiment(folder)  # First: no lock is left in any other folder.
            resources.enter_context(locked(folder.resolve() / LOCK))
            return Results(folder, resources, writes=True)

    @staticmethod
    def read(folder: Path | str) -> Results:
        """Open a run for reading; it may be written meanwhile, and its folder be read-only."""
        folder = Path(folder)
        with _translated(folder, "read"), ExitStack() as resources:
            return Results(folder, resources)

    def close(self) -> None:
        """Close the files; everything was written before. A second call does nothing."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make_game(self) -> Game:
        """Make the game of the experiment. Raises UsageError if it is not installed."""
        game = make_game(self.experiment.game, **self.experiment.options)
        if any(len(slot.specs) != game.num_players for slot in self.slots):
            raise ArenaError(f"{self.folder}: {game.name} has {game.num_players} seats here")
        return game

    def extend(self, slots: Iterable[Slot]) -> None:
        """Add games to the schedule: all of them, or none.

        Existing slots remain. Raises ArenaError if a number already has another game.
        """
        extended = list(self.slots)
        for slot in map(_without_secrets, slots):
            if slot.number == len(extended):
                extended.append(slot)
            elif not (0 <= slot.number < len(extended) and extended[slot.number] == slot):
                raise ArenaError(
                    f"game {slot.number} of {self.folder} differs from the schedule; resume with "
                    "the settings of the first run, or choose another --out"
                )
        if len(extended) > len(self.slots):
            self.change(**self.experiment.with_slots(extended))

    def change(self, **fields: object) -> None:
        """Replace fields of the experiment, such as its settings."""
        with _translated(self.folder, "write"):
            experiment = Experiment.model_validate({**dict(self.experiment), **fields})
            slots, text = experiment.slots(), experiment.model_dump_json() + "\n"
            _check_size(text.encode())
            write_whole(self.folder / RUN, text)
            self.experiment, self.slots = experiment, slots

    def add_look(self, games: int) -> int:
        """Count a look at the results of a schedule of so many games; return the looks so far."""
        # A second look at the same size, e.g. after an interruption, is not a further one.
        if games not in self.experiment.looks:
            self.change(looks=(*self.experiment.looks, games))
        return len(self.experiment.looks)

    def add_all(self, results: Sequence[GameResult]) -> None:
        """Add finished games of the schedule: all of them, or none."""
        assert self._writer is not None, "the folder was opened for writing"
        known = set[int]()
        with _translated(self.folder, "write"):
            for number in (result.slot.number for result in results):
                if number in known or number in self._places:
                    raise ValueError(f"game {number} is already there; its stored result is kept")
                known.add(number)
            data = memoryview(b"".join(map(self._line, results)))
            self._writer.seek(self._end)
            try:
                while data:
                    data = data[self._writer.write(data) :]
            except OSError:
                # The rest of a full disk must not stay before the next line.
                self._writer.truncate(self._end)
                raise
            self._scan()

    def _line(self, result: GameResult) -> bytes:
        """Return the line of a game. Raises ValueError unless it can be read back."""
        line = _GAME.dump_json(replace(result, slot=_without_secrets(result.slot))) + b"\n"
        self._checked(_GAME.validate_json(line))
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"game {result.slot.number} has too many measurements for one line")
        return line

    def _checked(self, result: GameResult) -> GameResult:
        """Raise ValueError unless the game and its players are those of the schedule."""
        slot = result.slot
        if slot not in self.slots[slot.number : slot.number + 1]:
            raise ValueError(f"game {slot.number} is not in the schedule")
        if tuple(seat.player for seat in result.seats) != slot.specs:
            raise ValueError(f"game {slot.number}: its players differ from the schedule")
        return result

    def finished(self) -> set[int]:
        """Return the numbers of the finished games."""
        with _translated(self.folder, "read"):
            self._scan()
        return set(self._places)

    def games(self, game: Game | None = None) -> Iterator[GameResult]:
        """Yield the finished games by number, with one in memory at a time.

        Games that are added during the iteration are not among them. With a game, raises ArenaError
        for returns that are not on its scale.
        """
        measures = set[str]()
        for number in sorted(self.finished()):
            with _translated(self.folder, "read"):
                self._lines.seek(self._places[number])
                try:
                    fields = unique_json(self._lines.readline(MAX_LINE_BYTES))
                    result = self._checked(_GAME.validate_python(fields))
                    measures.update(*(seat.measurements for seat in result.seats))
                    if len(measures) > MAX_MEASURES:
                        raise ValueError(f"the run has more than {MAX_MEASURES} measures")
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"{RESULTS}, game {number}: {_words(error)}") from None
            if game:
                returns = (seat.returns for seat in result.seats)
                check_returns(game, returns, f"{self.folder}, game {number}")
            yield result

    def leading_games(self, game: Game) -> Iterator[GameResult]:
        """Yield the finished games up to the first one that is missing."""
        for number, result in enumerate(self.games(game)):
            if result.slot.number != number:
                return
            yield result

    def _scan(self) -> None:
        """Find the lines that were added; an unfinished one at the end is left for later."""
        self._lines.seek(self._end)
        while (line := self._lines.readline(MAX_LINE_BYTES)).endswith(b"\n"):
            found = BEGINNING.match(line)
            number = int(found[1]) if found else -1
            if not 0 <= number < len(self.slots) or number in self._places:
                fault = f"game {number} is not to come here" if found else "this is no game"
                raise ValueError(f"{RESULTS} is damaged at byte {self._end}: {fault}")
            self._places[number] = self._end
            self._end += len(line)
        if len(line) == MAX_LINE_BYTES:
            raise ValueError(f"{RESULTS} is damaged at byte {self._end}: the line is too long")


def load_run(folder: Path | str) -> dict[str, NDArray[Any]]:
    """Return the finished games of a run as columns of equal length, with a row for each seat.

    Columns are `game` (number in the schedule), `seed`, `seat`, `player`, `role` (`tested` or
    `opponent`), `returns`, `won`, `truncated`, `turns` and `fallbacks`, and one for each measure
    with its value in that game; NaN where the game has none. Raises ArenaError for a folder that
    cannot be read.

        >>> games = load_run("runs/eval/cluedo-cards-4p-seed1-detective")
        >>> games["returns"][games["role"] == "tested"].mean()
    """
    columns = defaultdict[str, list[object]](list)
    measures, rows = defaultdict[str, dict[int, float]](dict), 0
    with Results.read(folder) as results:
        for game in results.games():
            for number, seat in enumerate(game.seats):
                row = {
                    "game": game.slot.number,
                    "seed": game.slot.seed,
                    "seat": number,
                    "player": seat.player,
                    "role": game.slot.seat_role(number),
                    "returns": seat.returns,
                    "won": seat.won,
                    "truncated": game.status == "truncated",
                    "turns": game.turns,
                    "fallbacks": seat.fallbacks,
                }
                for name, value in row.items():
                    columns[name].append(value)
                for name, share in seat.measurements.items():
                    if share.weight:
                        measures[name][rows] = share.total / share.weight
                rows += 1
    table = {name: np.array(values) for name, values in columns.items()}
    for name, values in measures.items():
        table[name] = np.full(rows, np.nan)
        table[name][list(values)] = list(values.values())
    return table


def is_run(path: Path) -> bool:
    """Return whether a path is the folder of a run."""
    return (path / RUN).is_file() and (path / RESULTS).is_file()


def is_written_to(folder: Path) -> bool:
    """Return whether a run writes into the folder now."""
    return is_locked(folder.resolve() / LOCK)


def _read_experiment(folder: Path) -> Experiment:
    """Read run.json. Raises OSError and ValueError."""
    with open_regular(folder / RUN) as file:
        text = file.read(MAX_RUN_BYTES + 1)
    try:
        _check_size(text)
        fields = unique_json(text)
        json.dumps(fields, allow_nan=False)  # Else each infinite number would be a fault.
        found = fields.get("format") if isinstance(fields, dict) else None
        if found != FORMAT:
            raise ValueError(
                f"format {found!r} of another program or version; this arena ({__version__}) reads "
                f"format {FORMAT}"
            )
        return Experiment.model_validate(fields)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{RUN}: {_words(error)}") from None


def _check_size(text: bytes) -> None:
    """Raise ValueError for a run.json that would take too much memory."""
    if len(text) > MAX_RUN_BYTES or sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError("it is too large; divide the run, with another --seed for each part")


def _touch(path: Path) -> int:
    """Create a file unless it exists; return its bytes."""
    with open_regular(path, os.O_WRONLY | os.O_CREAT) as file:
        return file.seek(0, os.SEEK_END)


def _without_secrets(slot: Slot) -> Slot:
    return replace(slot, specs=tuple(map(redacted, slot.specs)))


@contextmanager
def _translated(folder: Path, doing: Literal["read", "write"]) -> Iterator[None]:
    """Turn each error of the files into an ArenaError that names the folder and the remedy."""
    try:
        yield
    except Timeout as error:
        raise ArenaError(
            f"another run writes to {folder}; wait for it or choose another --out (if there is "
            f"none, delete {Path(error.lock_file).name} in it)"
        ) from error
    except OSError as error:
        kept = "; finished games are kept" if doing == "write" else ""
        reason = error.strerror or error
        raise ArenaError(f"cannot {doing} {error.filename or folder}: {reason}{kept}") from error
    except ValueError as error:
        raise ArenaError(f"{folder}: {_words(error)}") from error


def _words(error: ValueError | RecursionError) -> str:
    return shorten(first_fault(error) if isinstance(error, ValidationError) else str(error))
