"""One experiment (an evaluation or a tournament) in one SQLite file.

Games are written in transactions of one or several, so a crash at any moment leaves whole games.
One run writes at a time; others may read meanwhile. The lock is `FILE.lock` beside the file: the
kernel unlocks it when a run is killed, and it may be deleted when no run writes.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.evaluation.records import GameResult, Role, Slot
from arena.evaluation.store.database import (
    RunProgress,
    check_exists,
    check_kind,
    connect,
    connect_to_read,
    damaged,
    is_empty,
    lock,
    read_progress,
    start_log,
    transaction,
    translated_errors,
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
    Experiment,
    GameRow,
    Kind,
    check_slot,
    experiment_of,
    experiment_row,
    game_result,
    without_secrets,
)
from arena.plugins.loader import make_game

BATCH_SIZE = 100
"""Games that are read by one query and are in memory together."""
NUMBERED = "WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number"
"""Condition on the number of a game. A list of values in SQL would be limited in length."""


class Results:
    """A results file: its experiment, its schedule, and the games that are finished.

    Each method raises ArenaError, with the path and the remedy, if the file cannot be read or
    written; finished games are kept. Use an object only in the thread that opened it, and do not
    fork the process while it is open.
    """

    def __init__(self, path: Path, database: sqlite3.Connection, resources: ExitStack) -> None:
        """Use `create`, `open` or `read` instead."""
        self.path = path
        self._database = database
        self._resources = resources

    @staticmethod
    def create(
        path: Path | str,
        kind: Kind,
        game: str,
        options: Mapping[str, JsonValue],
        settings: Mapping[str, JsonValue],
    ) -> Results:
        """Create a file and open it for writing; an existing file is never overwritten."""
        path = Path(path)
        with translated_errors(path, "write"), ExitStack() as resources:
            experiment = experiment_row(Experiment(kind, game, options, settings))
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
            start_log(database, resources)
            return Results(path, database, resources.pop_all())

    @staticmethod
    def open(path: Path | str) -> Results:
        """Open an existing file for writing."""
        path = Path(path)
        check_exists(path)
        with translated_errors(path, "write"), ExitStack() as resources:
            resources.enter_context(lock(path))
            database = resources.enter_context(closing(connect(path, "rw")))
            check_kind(path, database)
            damage = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage != "ok":
                raise damaged(path, damage)
            start_log(database, resources)
            return Results(path, database, resources.pop_all())

    @staticmethod
    def read(path: Path | str) -> Results:
        """Open a file for reading; a run may be writing to it, and its folder may be read-only."""
        path = Path(path)
        check_exists(path)
        with translated_errors(path, "read"), ExitStack() as resources:
            database = resources.enter_context(closing(connect_to_read(path)))
            check_kind(path, database)
            return Results(path, database, resources.pop_all())

    def close(self) -> None:
        """Close the file; everything written is already on disk. A second call does nothing."""
        with translated_errors(self.path, "write"):
            self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def experiment(self) -> Experiment:
        with translated_errors(self.path, "read"):
            rows = EXPERIMENT.select(self._database)
            if len(rows) != 1:
                raise BadRow(f"experiment: {len(rows)} rows instead of one")
            return experiment_of(rows[0])

    def make_game(self) -> Game:
        """Make the game of the experiment. Raises UsageError if it is not installed."""
        experiment = self.experiment
        return make_game(experiment.game, **experiment.options)

    def set_settings(self, settings: Mapping[str, JsonValue]) -> None:
        """Replace the settings."""
        with translated_errors(self.path, "write"):
            row = experiment_row(replace(self.experiment, settings=settings))
            update = "UPDATE experiment SET settings = ?"
            with transaction(self._database):
                self._database.execute(update, (EXPERIMENT.check([row])[0].settings,))

    def schedule(self) -> list[Slot]:
        """Return all games in order, played or not; their SPECs are without secrets."""
        with translated_errors(self.path, "read"), transaction(self._database, "DEFERRED"):
            return self._slots()

    def extend(self, slots: Iterable[Slot]) -> None:
        """Add games to the schedule: all of them, or none.

        Existing slots remain. Raises ArenaError if a number already has another game.
        """
        new = iter(slots)
        with translated_errors(self.path, "write"), transaction(self._database):
            # In batches: a statement for each game would delay the start of a large schedule.
            while batch := list(map(without_secrets, islice(new, BATCH_SIZE))):
                self._extend(batch)

    def _extend(self, batch: Sequence[Slot]) -> None:
        known = self._numbered(batch)
        missing = []
        for slot in batch:
            check_slot(slot)
            if known.setdefault(slot.number, slot) is slot:
                missing.append(slot)
            elif known[slot.number] != slot:
                raise ArenaError(
                    f"game {slot.number} of {self.path} differs from the schedule; resume with "
                    "the settings of the first run, or choose another --out"
                )
        self._add_slots(missing)

    def add_all(self, results: Sequence[GameResult]) -> None:
        """Add finished games of the schedule in one transaction: all of them, or none."""
        finished = datetime.now(UTC).isoformat()
        with translated_errors(self.path, "write"), transaction(self._database):
            self._check_fit(results)
            # All columns but the number are fields of the result.
            columns = GameRow._fields[1:]
            games = [(r.slot.number, *(getattr(r, name) for name in columns)) for r in results]
            GAMES.insert(self._database, games, finished=finished)
            SEATS.insert(
                self._database,
                [
                    (result.slot.number, seat, each.returns, each.won, each.fallbacks)
                    for result in results
                    for seat, each in enumerate(result.seats)
                ],
            )
            self._add_shares(results)

    def rescore(self, result: GameResult) -> None:
        """Replace the measurements of a finished game; the rest of its result remains."""
        number = result.slot.number
        with translated_errors(self.path, "write"), transaction(self._database):
            self._database.execute("DELETE FROM shares WHERE number = ?", (number,))
            self._database.execute("UPDATE games SET scored = 1 WHERE number = ?", (number,))
            self._add_shares([result])

    def _add_shares(self, results: Sequence[GameResult]) -> None:
        SHARES.insert(
            self._database,
            [
                (result.slot.number, seat, measure, share.total, share.weight)
                for result in results
                for seat, each in enumerate(result.seats)
                for measure, share in each.measurements.items()
            ],
        )

    def add_look(self, games: int) -> int:
        """Count a look at the results of a schedule of so many games; return the looks so far."""
        with translated_errors(self.path, "write"), transaction(self._database):
            # A second look at the same size, e.g. after an interruption, is not a further one.
            self._database.execute("INSERT OR IGNORE INTO looks VALUES (?)", (games,))
            count: int = self._database.execute("SELECT count(*) FROM looks").fetchone()[0]
            return count

    def roles(self) -> dict[str, tuple[Role, int | None]]:
        """Return role and tested seat of the finished games, by the hash of their replays."""
        with translated_errors(self.path, "read"):
            hashes = {row.number: row.sha256 for row in GAMES.select(self._database)}
            rows = SCHEDULE.select(self._database)
            return {
                digest: (row.role, row.seat) for row in rows if (digest := hashes.get(row.number))
            }

    def finished(self) -> set[int]:
        """Return the numbers of the finished games."""
        with translated_errors(self.path, "read"):
            played = "WHERE number IN (SELECT number FROM games)"
            return {row.number for row in SCHEDULE.select(self._database, played)}

    def progress(self) -> RunProgress:
        """Return how far the run has come, without reading its games."""
        with translated_errors(self.path, "read"), transaction(self._database, "DEFERRED"):
            return read_progress(self._database)

    def games(self) -> Iterator[GameResult]:
        """Yield the finished games by number, with one batch in memory at a time.

        Games that are added during the iteration may or may not be among them.
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
        values = (after, BATCH_SIZE)
        with translated_errors(self.path, "read"), transaction(self._database, "DEFERRED"):
            slots = {slot.number: slot for slot in self._slots(chosen, values)}
            measured = SHARES.select(self._database, f"{chosen}, seat", values)
            measurements = {
                place: {row.measure: WeightedSum(row.total, row.weight) for row in own}
                for place, own in groupby(measured, lambda row: (row.number, row.seat))
            }
            rows = SEATS.select(self._database, f"{chosen}, seat", values)
            seats = {number: list(own) for number, own in groupby(rows, lambda row: row.number)}
            return [
                game_result(game, slots.get(game.number), seats.get(game.number, []), measurements)
                for game in GAMES.select(self._database, chosen, values)
            ]

    def _slots(self, chosen: str = "ORDER BY number", values: Sequence[object] = ()) -> list[Slot]:
        rows = SCHEDULE.select(self._database, chosen, values)
        places: dict[int, list[str]] = defaultdict(list)
        for place in PLACES.select(self._database, f"{chosen}, seat", values):
            if place.seat != len(places[place.number]):
                raise BadRow(f"places: game {place.number} lacks seat {len(places[place.number])}")
            places[place.number].append(place.spec)
        slots = [
            Slot(row.number, row.seed, tuple(places[row.number]), row.role, row.seat)
            for row in rows
        ]
        for slot in slots:
            check_slot(slot)
        return slots

    def _numbered(self, slots: Iterable[Slot]) -> dict[int, Slot]:
        """Return those of the schedule that have the numbers of these slots."""
        known = self._slots(NUMBERED, (_numbers(slots),))
        return {slot.number: slot for slot in known}

    def _add_slots(self, slots: Sequence[Slot]) -> None:
        SCHEDULE.insert(
            self._database, [(slot.number, slot.seed, slot.role, slot.seat) for slot in slots]
        )
        places = PLACES.check(
            [(slot.number, seat, spec) for slot in slots for seat, spec in enumerate(slot.specs)]
        )
        self._database.executemany(
            "INSERT OR IGNORE INTO players (spec) VALUES (?)",
            [(spec,) for spec in dict.fromkeys(place.spec for place in places)],
        )
        self._database.executemany(
            "INSERT INTO places SELECT ?, ?, id FROM players WHERE spec = ?", places
        )

    def _check_fit(self, results: Sequence[GameResult]) -> None:
        """Raise ArenaError unless the games are in the schedule and not finished yet."""
        slots = [without_secrets(result.slot) for result in results]
        for slot in slots:
            check_slot(slot)
        known = self._numbered(slots)
        rows = GAMES.select(self._database, NUMBERED, (_numbers(slots),))
        finished = {row.number for row in rows}
        for slot, result in zip(slots, results, strict=True):
            if known.get(slot.number) != slot:
                raise ArenaError(f"game {slot.number} is not in the schedule of {self.path}")
            if tuple(seat.player for seat in result.seats) != slot.specs:
                raise ArenaError(
                    f"game {slot.number} for {self.path}: its players differ from the schedule"
                )
            if slot.number in finished:
                raise ArenaError(
                    f"game {slot.number} is already in {self.path}; the stored result is kept"
                )
            finished.add(slot.number)


def _numbers(slots: Iterable[Slot]) -> str:
    """Return the numbers of slots as the value of NUMBERED."""
    return json.dumps([slot.number for slot in slots])
