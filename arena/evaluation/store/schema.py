"""The tables of a results file, the checks of each row, and the records that rows hold.

A results file may come from an unknown source, so its content is untrusted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, Field, FiniteFloat, JsonValue, TypeAdapter, ValidationError

from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError
from arena.core.spec import redacted
from arena.core.version import __version__
from arena.episodes.record import Printable
from arena.evaluation.records import GameResult, Role, SeatResult, Slot

SCHEMA_VERSION = 1
"""In SQLite's `user_version`. Raise it with each change of the format."""
APPLICATION_ID = int.from_bytes(b"aren", "big")
"""In SQLite's `application_id`: distinguishes results files from files of other applications."""

TABLES: dict[str, str] = {
    "experiment": """CREATE TABLE experiment (
  -- The one row: what is played, and how. `options` and `settings` are JSON objects.
  id INTEGER PRIMARY KEY CHECK (id = 1),
  kind TEXT NOT NULL CHECK (kind IN ('eval', 'tournament')),
  game TEXT NOT NULL,
  options TEXT NOT NULL,
  settings TEXT NOT NULL, -- What must be equal for a run to be resumed.
  created TEXT NOT NULL, -- ISO 8601, UTC.
  arena TEXT NOT NULL -- The version that made the file.
)""",
    "players": """CREATE TABLE players (
  -- Players, by SPEC. A password in a URL is left out.
  id INTEGER PRIMARY KEY,
  spec TEXT NOT NULL UNIQUE
)""",
    "schedule": """CREATE TABLE schedule (
  -- The games that are to be played; those that were are in `games`.
  number INTEGER PRIMARY KEY CHECK (number >= 0),
  seed INTEGER NOT NULL, -- The deal. Games with one seed depend on each other.
  role TEXT NOT NULL CHECK (role IN ('player', 'baseline', 'table')),
  seat INTEGER -- The seat under test; NULL where all are.
)""",
    "places": """CREATE TABLE places (
  -- Who sits where in each game of the schedule; seats count from 0.
  number INTEGER NOT NULL REFERENCES schedule (number),
  seat INTEGER NOT NULL CHECK (seat >= 0),
  player INTEGER NOT NULL REFERENCES players (id),
  PRIMARY KEY (number, seat)
) WITHOUT ROWID""",
    "games": """CREATE TABLE games (
  -- The finished games.
  number INTEGER PRIMARY KEY REFERENCES schedule (number),
  status TEXT NOT NULL CHECK (status IN ('terminated', 'truncated')),
  reason TEXT NOT NULL,
  turns INTEGER NOT NULL,
  decisions INTEGER NOT NULL,
  seconds REAL NOT NULL, -- Time that it took to play.
  scored INTEGER NOT NULL CHECK (scored IN (0, 1)), -- By exact knowledge: it has `shares`.
  replay TEXT, -- Path, relative to this file where it can be.
  sha256 TEXT, -- Of the replay's bytes.
  finished TEXT NOT NULL -- ISO 8601, UTC.
)""",
    "seats": """CREATE TABLE seats (
  -- What each seat of a finished game did.
  number INTEGER NOT NULL REFERENCES games (number),
  seat INTEGER NOT NULL,
  returns REAL NOT NULL,
  won INTEGER NOT NULL CHECK (won IN (0, 1)), -- It alone has the highest return.
  fallbacks INTEGER NOT NULL, -- Decisions that were played for it.
  PRIMARY KEY (number, seat),
  FOREIGN KEY (number, seat) REFERENCES places (number, seat)
) WITHOUT ROWID""",
    "shares": """CREATE TABLE shares (
  -- What a game adds to a measure of a player. A measure's value is sum(total) / sum(weight).
  number INTEGER NOT NULL,
  seat INTEGER NOT NULL,
  measure TEXT NOT NULL,
  total REAL NOT NULL,
  weight REAL NOT NULL,
  PRIMARY KEY (number, seat, measure),
  FOREIGN KEY (number, seat) REFERENCES seats (number, seat)
) WITHOUT ROWID""",
    "looks": """CREATE TABLE looks (
  -- The sizes of the schedule at which results were shown.
  games INTEGER PRIMARY KEY CHECK (games >= 0)
)""",
}

Kind = Literal["eval", "tournament"]
Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""The integers that SQLite can hold."""
Count = Annotated[int, Field(ge=0, lt=2**63)]
Summable = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
"""A number such that sums of millions are finite."""


def _check_object(text: str) -> str:
    try:
        _OBJECT.validate_json(text)
    except ValidationError:
        raise ValueError("is not a JSON object") from None
    return text


def _check_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


_OBJECT = TypeAdapter(dict[str, JsonValue])
JsonObject = Annotated[str, AfterValidator(_check_object)]
Timestamp = Annotated[str, AfterValidator(_check_time)]


class ExperimentRow(NamedTuple):
    kind: Kind
    game: Printable
    options: JsonObject
    settings: JsonObject
    created: Timestamp
    arena: Printable


class SlotRow(NamedTuple):
    number: Count
    seed: Integer
    role: Role
    seat: Count | None


class PlaceRow(NamedTuple):
    number: Count
    seat: Count
    spec: Printable


class GameRow(NamedTuple):
    number: Count
    status: Literal["terminated", "truncated"]
    reason: Printable
    turns: Count
    decisions: Count
    seconds: FiniteFloat
    scored: bool
    replay: Printable | None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None


class SeatRow(NamedTuple):
    number: Count
    seat: Count
    returns: FiniteFloat
    won: bool
    fallbacks: Count


class ShareRow(NamedTuple):
    number: Count
    seat: Count
    measure: Printable
    total: Summable
    weight: Summable


Row = TypeVar("Row", bound=NamedTuple)


class BadRow(ValueError):
    """A row that is to be written or was read does not fit its table."""


class SqlTable(Generic[Row]):
    """One table. The same checks apply to rows that are written and to rows that are read."""

    def __init__(self, name: str, row: type[Row], source: str | None = None) -> None:
        """`source` is the join that rows are selected from, if it is more than the table."""
        self._name = name
        self._columns: tuple[str, ...] = row._fields
        self._source = source or name
        self._rows: TypeAdapter[list[Row]] = TypeAdapter(list[row])  # type: ignore[valid-type]

    def check(self, rows: Sequence[Sequence[object]]) -> list[Row]:
        """Return the rows as typed values. Raises BadRow."""
        try:
            return self._rows.validate_python(rows)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            column = fault["loc"][1]
            name = self._columns[column] if isinstance(column, int) else column
            raise BadRow(f"{self._name}.{name}: {fault['msg']}") from None

    def select(
        self, database: sqlite3.Connection, where: str = "", values: Sequence[object] = ()
    ) -> list[Row]:
        select = f"SELECT {', '.join(self._columns)} FROM {self._source} {where}"
        return self.check(database.execute(select, values).fetchall())

    def insert(
        self, database: sqlite3.Connection, rows: Sequence[Sequence[object]], **more: object
    ) -> None:
        """Insert rows. `more` are columns that are not read; they are equal in all rows."""
        columns = [*self._columns, *more]
        marks = ", ".join("?" for _ in columns)
        database.executemany(
            f"INSERT INTO {self._name} ({', '.join(columns)}) VALUES ({marks})",
            [(*each, *more.values()) for each in self.check(rows)],
        )


EXPERIMENT = SqlTable("experiment", ExperimentRow)
SCHEDULE = SqlTable("schedule", SlotRow)
PLACES = SqlTable("places", PlaceRow, source="places JOIN players ON player = id")
GAMES = SqlTable("games", GameRow)
SEATS = SqlTable("seats", SeatRow)
SHARES = SqlTable("shares", ShareRow)


@dataclass(frozen=True, slots=True)
class Experiment:
    """Subject of a results file."""

    kind: Kind
    game: str
    options: Mapping[str, JsonValue]
    settings: Mapping[str, JsonValue]
    """Settings that must be equal for a run to be resumed. They contain no secrets."""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    arena: str = __version__
    """Version of arena that created the file."""

    @property
    def seed(self) -> int:
        """Seed of the run. Raises ArenaError if the settings have none."""
        seed = self.settings.get("seed")
        if not isinstance(seed, int):
            raise ArenaError(f"the settings of the run hold no seed, but {seed!r}")
        return seed


def experiment_row(experiment: Experiment) -> tuple[object, ...]:
    options = _json_text("options", experiment.options)
    settings = _json_text("settings", experiment.settings)
    created = experiment.created.isoformat()
    return (experiment.kind, experiment.game, options, settings, created, experiment.arena)


def _json_text(column: str, value: Mapping[str, JsonValue]) -> str:
    try:
        return json.dumps(dict(value), allow_nan=False)
    except ValueError as error:
        raise BadRow(f"experiment.{column}: {error}") from None


def experiment_of(row: ExperimentRow) -> Experiment:
    options, settings = json.loads(row.options), json.loads(row.settings)
    created = datetime.fromisoformat(row.created)
    return Experiment(row.kind, row.game, options, settings, created, row.arena)


def without_secrets(slot: Slot) -> Slot:
    return replace(slot, specs=tuple(map(redacted, slot.specs)))


def check_slot(slot: Slot) -> None:
    """Raise BadRow for a slot that no schedule may contain."""
    SCHEDULE.check([(slot.number, slot.seed, slot.role, slot.seat)])
    if not slot.specs:
        raise BadRow(f"schedule: game {slot.number} has no players")
    if slot.seat is not None and not 0 <= slot.seat < len(slot.specs):
        raise BadRow(f"schedule: game {slot.number} has no seat {slot.seat}")


def game_result(
    game: GameRow,
    slot: Slot | None,
    seats: Sequence[SeatRow],
    measurements: Mapping[tuple[int, int], Mapping[str, WeightedSum]],
) -> GameResult:
    """Assemble a result; `measurements` are by game and seat. Raises BadRow if rows are missing."""
    if slot is None or [row.seat for row in seats] != list(range(len(slot.specs))):
        raise BadRow(f"games: rows of game {game.number} are missing")
    results = tuple(
        SeatResult(
            spec, row.returns, row.won, row.fallbacks, measurements.get((row.number, row.seat), {})
        )
        for spec, row in zip(slot.specs, seats, strict=True)
    )
    fields = game._asdict()
    # The number is in the slot; all other columns are fields of the result.
    del fields["number"]
    return GameResult(slot=slot, seats=results, **fields)
