"""One experiment (an evaluation, or a tournament) in one SQLite file.

A game is written in one transaction, so a crash at any moment loses at most the games in flight.
One run writes at a time; others may read meanwhile. Beside the file lies `FILE.lock`, which the
kernel unlocks when a run is killed; it may be deleted when no run writes.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Self

from arena.core.assessment import Share
from arena.core.errors import ArenaError
from arena.core.json import Json
from arena.core.spec import shown
from arena.core.version import __version__
from arena.evaluation.records import GameResult, SeatResult, Slot
from arena.evaluation.store.database import (
    begin_log,
    check_exists,
    check_kind,
    connect,
    connect_to_read,
    damaged,
    explained,
    is_empty,
    lock,
    transaction,
)
from arena.evaluation.store.schema import (
    APPLICATION_ID,
    EXPERIMENT,
    GAMES,
    PLACES,
    SCHEDULE,
    SCHEMA_VERSION,
    SEATS,
    SHARES,
    TABLES,
    BadRow,
    GameRow,
    Kind,
    SeatRow,
)

BATCH = 100
"""Games that are read at once."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a results file is about."""

    kind: Kind
    game: str
    options: Mapping[str, Json]
    settings: Mapping[str, Json]
    """What must be equal for a run to be resumed. They are stored as they are: no secrets."""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    arena: str = __version__
    """The version that made the file."""


class Results:
    """A results file: its experiment, its schedule, and the games that are finished.

    Every method raises ArenaError, with the path and what to do, where the file cannot be read or
    written; what was finished is kept. Use it in the thread that opened it. A process that is to
    be forked should be forked before.
    """

    def __init__(self, path: Path, database: sqlite3.Connection, resources: ExitStack) -> None:
        """Use `create`, `open` or `read`."""
        self.path = path
        self._database = database
        self._resources = resources

    @staticmethod
    def create(
        path: Path | str,
        kind: Kind,
        game: str,
        options: Mapping[str, Json],
        settings: Mapping[str, Json],
    ) -> Results:
        """Begin a new file, to write to; an existing one is never overwritten."""
        path = Path(path)
        with explained(path, "write"), ExitStack() as resources:
            experiment = _row_of(Experiment(kind, game, options, settings))
            path.parent.mkdir(parents=True, exist_ok=True)
            resources.enter_context(lock(path))
            database = resources.enter_context(closing(connect(path, "rwc")))
            if not is_empty(database):
                raise ArenaError(f"{path} exists; resume it, or choose another --out")
            with transaction(database):
                for definition in TABLES.values():
                    database.execute(definition)
                EXPERIMENT.insert(database, [experiment], id=1)
                database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            begin_log(database, resources)
            return Results(path, database, resources.pop_all())

    @staticmethod
    def open(path: Path | str) -> Results:
        """Go on writing to a file."""
        path = Path(path)
        check_exists(path)
        with explained(path, "write"), ExitStack() as resources:
            resources.enter_context(lock(path))
            database = resources.enter_context(closing(connect(path, "rw")))
            check_kind(path, database)
            damage = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage != "ok":
                raise damaged(path, damage)
            begin_log(database, resources)
            return Results(path, database, resources.pop_all())

    @staticmethod
    def read(path: Path | str) -> Results:
        """Only read a file; a run may be writing to it, and its folder may be read-only."""
        path = Path(path)
        check_exists(path)
        with explained(path, "read"), ExitStack() as resources:
            database = resources.enter_context(closing(connect_to_read(path)))
            check_kind(path, database)
            return Results(path, database, resources.pop_all())

    def close(self) -> None:
        """What was written is on disk already; twice does no harm."""
        with explained(self.path, "write"):
            self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def experiment(self) -> Experiment:
        with explained(self.path, "read"):
            rows = EXPERIMENT.select(self._database)
            if len(rows) != 1:
                raise BadRow(f"experiment: {len(rows)} rows instead of one")
            row = rows[0]
            options, settings = json.loads(row.options), json.loads(row.settings)
            created = datetime.fromisoformat(row.created)
            return Experiment(row.kind, row.game, options, settings, created, row.arena)

    def set_settings(self, settings: Mapping[str, Json]) -> None:
        """Replace the settings, e.g. by `{**results.experiment.settings, "games": 200}`."""
        with explained(self.path, "write"):
            row = _row_of(replace(self.experiment, settings=settings))
            update = "UPDATE experiment SET settings = ?"
            with transaction(self._database):
                self._database.execute(update, (EXPERIMENT.check([row])[0].settings,))

    def schedule(self) -> list[Slot]:
        """All games that are to be played, in order; their SPECs are as they may be shown."""
        with explained(self.path, "read"), transaction(self._database, "DEFERRED"):
            return self._slots()

    def extend(self, slots: Iterable[Slot]) -> None:
        """Add games to the schedule: all of them, or none.

        A slot that is there already is left as it is. Raises ArenaError for one whose number is
        taken by another game.
        """
        with explained(self.path, "write"), transaction(self._database):
            for slot in map(_shown, slots):
                _check_slot(slot)
                known = self._slots("WHERE number = ?", (slot.number,))
                if not known:
                    self._add_slot(slot)
                elif known != [slot]:
                    raise ArenaError(
                        f"game {slot.number} of {self.path} is another one; "
                        "resume with the settings that it was made with, or choose another --out"
                    )

    def add(self, result: GameResult) -> None:
        """Add a finished game of the schedule: all of it, or nothing."""
        number = result.slot.number
        with explained(self.path, "write"), transaction(self._database):
            self._check_fits(result)
            game = GameRow(
                number,
                result.status,
                result.reason,
                result.turns,
                result.decisions,
                result.seconds,
                result.scored,
                result.replay,
                result.sha256,
            )
            GAMES.insert(self._database, [game], finished=datetime.now(UTC).isoformat())
            SEATS.insert(
                self._database,
                [
                    (number, seat, each.returns, each.won, each.fallbacks)
                    for seat, each in enumerate(result.seats)
                ],
            )
            self._add_shares(result)

    def rescore(self, result: GameResult) -> None:
        """Replace what a finished game adds to measures; what else it is stays as it is."""
        number = result.slot.number
        with explained(self.path, "write"), transaction(self._database):
            self._database.execute("DELETE FROM shares WHERE number = ?", (number,))
            self._database.execute("UPDATE games SET scored = 1 WHERE number = ?", (number,))
            self._add_shares(result)

    def _add_shares(self, result: GameResult) -> None:
        SHARES.insert(
            self._database,
            [
                (result.slot.number, seat, measure, share.total, share.weight)
                for seat, each in enumerate(result.seats)
                for measure, share in each.shares.items()
            ],
        )

    def finished(self) -> set[int]:
        """The numbers of the games that are finished."""
        with explained(self.path, "read"):
            played = "WHERE number IN (SELECT number FROM games)"
            return {row.number for row in SCHEDULE.select(self._database, played)}

    def games(self) -> Iterator[GameResult]:
        """The finished games in order of their numbers, a batch in memory at a time.

        A game that is added meanwhile may or may not be among them.
        """
        after = -1
        while batch := self._batch(after):
            yield from batch
            after = batch[-1].slot.number

    def _batch(self, after: int) -> list[GameResult]:
        chosen = (
            "WHERE number IN (SELECT number FROM games WHERE number > ? ORDER BY number LIMIT ?) "
            "ORDER BY number"
        )
        values = (after, BATCH)
        with explained(self.path, "read"), transaction(self._database, "DEFERRED"):
            slots = {slot.number: slot for slot in self._slots(chosen, values)}
            measured = SHARES.select(self._database, f"{chosen}, seat", values)
            shares = {
                place: {row.measure: Share(row.total, row.weight) for row in own}
                for place, own in groupby(measured, lambda row: (row.number, row.seat))
            }
            rows = SEATS.select(self._database, f"{chosen}, seat", values)
            seats = {number: list(own) for number, own in groupby(rows, lambda row: row.number)}
            return [
                _game(game, slots.get(game.number), seats.get(game.number, []), shares)
                for game in GAMES.select(self._database, chosen, values)
            ]

    def _slots(self, chosen: str = "ORDER BY number", values: Sequence[object] = ()) -> list[Slot]:
        rows = SCHEDULE.select(self._database, chosen, values)
        order = f"{chosen}, seat" if "ORDER" in chosen else f"{chosen} ORDER BY seat"
        places: dict[int, list[str]] = defaultdict(list)
        for place in PLACES.select(self._database, order, values):
            if place.seat != len(places[place.number]):
                raise BadRow(f"places: game {place.number} lacks seat {len(places[place.number])}")
            places[place.number].append(place.spec)
        slots = [
            Slot(row.number, row.seed, tuple(places[row.number]), row.role, row.seat)
            for row in rows
        ]
        for slot in slots:
            _check_slot(slot)
        return slots

    def _add_slot(self, slot: Slot) -> None:
        SCHEDULE.insert(self._database, [(slot.number, slot.seed, slot.role, slot.seat)])
        places = [(slot.number, seat, spec) for seat, spec in enumerate(slot.specs)]
        for number, seat, spec in PLACES.check(places):
            self._database.execute("INSERT OR IGNORE INTO players (spec) VALUES (?)", (spec,))
            self._database.execute(
                "INSERT INTO places SELECT ?, ?, id FROM players WHERE spec = ?",
                (number, seat, spec),
            )

    def _check_fits(self, result: GameResult) -> None:
        """That the game is the one of the schedule, and is not there yet."""
        slot = _shown(result.slot)
        _check_slot(slot)
        if self._slots("WHERE number = ?", (slot.number,)) != [slot]:
            raise ArenaError(f"game {slot.number} is not in the schedule of {self.path}")
        if tuple(seat.player for seat in result.seats) != slot.specs:
            raise ArenaError(f"game {slot.number} for {self.path}: its seats are not its places")
        if GAMES.select(self._database, "WHERE number = ?", (slot.number,)):
            raise ArenaError(f"game {slot.number} is in {self.path} already; it is kept as it is")


def _game(
    game: GameRow,
    slot: Slot | None,
    seats: Sequence[SeatRow],
    shares: Mapping[tuple[int, int], Mapping[str, Share]],
) -> GameResult:
    if slot is None or [row.seat for row in seats] != list(range(len(slot.specs))):
        raise BadRow(f"games: number {game.number} is not whole")
    results = [
        SeatResult(
            spec, row.returns, row.won, row.fallbacks, shares.get((row.number, row.seat), {})
        )
        for spec, row in zip(slot.specs, seats, strict=True)
    ]
    return GameResult(
        slot,
        game.status,
        game.reason,
        game.turns,
        game.decisions,
        game.seconds,
        tuple(results),
        game.scored,
        game.replay,
        game.sha256,
    )


def _shown(slot: Slot) -> Slot:
    return replace(slot, specs=tuple(map(shown, slot.specs)))


def _check_slot(slot: Slot) -> None:
    SCHEDULE.check([(slot.number, slot.seed, slot.role, slot.seat)])
    if not slot.specs:
        raise BadRow(f"schedule: nobody sits in game {slot.number}")
    if slot.seat is not None and not 0 <= slot.seat < len(slot.specs):
        raise BadRow(f"schedule: game {slot.number} has no seat {slot.seat}")


def _row_of(experiment: Experiment) -> tuple[object, ...]:
    return (
        experiment.kind,
        experiment.game,
        _text_of("options", experiment.options),
        _text_of("settings", experiment.settings),
        experiment.created.isoformat(),
        experiment.arena,
    )


def _text_of(column: str, value: Mapping[str, Json]) -> str:
    try:
        return json.dumps(dict(value), allow_nan=False)
    except ValueError as error:  # NaN is no JSON.
        raise BadRow(f"experiment.{column}: {error}") from None
