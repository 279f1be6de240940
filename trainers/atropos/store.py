"""The queue of the trajectory API on disk: one SQLite file, so that `kill -9` loses nothing.

A group is acknowledged after its transaction is committed. A batch is formed in one transaction
with the step that it counts as. It is delivered once its last byte was handed to a connection that
was still open. Formed batches that were not delivered are handed out first after a restart.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from arena.core.errors import ArenaError, UsageError
from trainers.atropos.packing import WaitingGroup
from trainers.atropos.wire import EnvRegistration, EnvStatus, ScoredData, TrainerRegistration

FILE = "trajectories.sqlite"
TABLES = """
CREATE TABLE IF NOT EXISTS run (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 0),
  registration TEXT NOT NULL, step INTEGER NOT NULL, started INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS envs (
  env_id INTEGER PRIMARY KEY, registration TEXT NOT NULL, connected INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE TABLE IF NOT EXISTS groups (
  number INTEGER PRIMARY KEY AUTOINCREMENT, env_id INTEGER, size INTEGER NOT NULL,
  batch INTEGER, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS groups_by_batch ON groups (batch);
"""
DELIVERED = -1
"""Value of `batch` in the newest group, which GET /latest_example shows after its delivery."""


class StorageFull(ArenaError):
    """A group could not be written; nothing of it was kept. A retry may succeed."""


@dataclass(frozen=True, slots=True)
class TrainerRun:
    """What the trainer registered, and its progress."""

    registration: TrainerRegistration
    step: int
    """Batches formed, counted from the starting step."""
    started: bool
    """True after the first GET /batch."""


@dataclass(frozen=True, slots=True)
class ConnectedEnv:
    """A registered environment."""

    registration: EnvRegistration
    connected: bool


class TrajectoryStore:
    """The state of one server. All attributes are those of the last committed transaction.

    Creates the folder of the file. Raises UsageError if another server uses it, or it cannot be
    written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._opened = time.monotonic()
        self._last_calls: dict[int, float] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            # Exclusive: a second server on this file fails below, and no shared memory is used.
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            # A commit is in the kernel's hands, which suffices if only the process is killed.
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            # Also takes the lock, which the kernel releases when the process ends in any way.
            self._connection.executescript(f"BEGIN EXCLUSIVE;{TABLES}COMMIT;")
            self._load()
        except (OSError, sqlite3.Error) as error:
            if "locked" in str(error):
                raise UsageError(f"--data {folder}: another server uses this folder") from None
            raise UsageError(f"--data {folder}: cannot be used: {error}") from None

    def _load(self) -> None:
        rows = self._connection.execute
        self.run: TrainerRun | None = None
        for text, step, started in rows("SELECT registration, step, started FROM run"):
            registration = TrainerRegistration.model_validate_json(text)
            self.run = TrainerRun(registration, step, bool(started))
        self.envs = [
            ConnectedEnv(EnvRegistration.model_validate_json(text), bool(connected))
            for text, connected in rows("SELECT registration, connected FROM envs ORDER BY env_id")
        ]
        self.waiting = [
            WaitingGroup(*row)
            for row in rows(
                "SELECT number, env_id, size FROM groups WHERE batch IS NULL ORDER BY number"
            )
        ]
        self.undelivered = [batch for (batch,) in rows("SELECT id FROM batches ORDER BY id")]
        """Formed batches in the order of their formation."""

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit at the end, or change nothing. Raises StorageFull if the file cannot grow."""
        try:
            self._connection.execute("BEGIN")
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException as error:
            # SQLite has already rolled back after some errors, such as a full disk.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise StorageFull(f"cannot write {self.path}: {error}") from None
            raise

    @property
    def is_in_use(self) -> bool:
        """Whether environments or groups belong to the run, which another one must not replace."""
        return bool(self.envs or self.waiting or self.undelivered)

    def register(self, registration: TrainerRegistration) -> None:
        """Record the registration of a trainer; a later one keeps the step of a run in use."""
        before = self.run if self.is_in_use else None
        run = TrainerRun(
            registration,
            # A trainer that registers again after a crash continues the run.
            before.step if before else registration.starting_step,
            before is not None and before.started,
        )
        self._write_run(run)

    def start(self) -> None:
        """Record that the trainer asks for batches, so that environments may register."""
        assert self.run is not None, "the trainer registers first"
        if not self.run.started:
            self._write_run(replace(self.run, started=True))

    def _write_run(self, run: TrainerRun) -> None:
        values = run.registration.model_dump_json(), run.step, run.started
        with self._transaction() as write:
            write.execute("INSERT OR REPLACE INTO run VALUES (0, ?, ?, ?)", values)
        self.run = run

    def add_env(self, registration: EnvRegistration) -> int:
        """Record an environment and return its id, which counts from 0."""
        number = len(self.envs)
        with self._transaction() as write:
            values = number, registration.model_dump_json()
            write.execute("INSERT INTO envs VALUES (?, ?, 1)", values)
        self.envs.append(ConnectedEnv(registration, True))
        self.heard_from(number)
        return number

    def disconnect(self, env_id: int) -> None:
        """Record that an environment has ended. Its groups stay in the queue."""
        with self._transaction() as write:
            write.execute("UPDATE envs SET connected = 0 WHERE env_id = ?", (env_id,))
        self.envs[env_id] = replace(self.envs[env_id], connected=False)

    def heard_from(self, env_id: int) -> None:
        """Note a call of an environment."""
        self._last_calls[env_id] = time.monotonic()

    def seconds_silent(self, env_id: int) -> float:
        """Return the seconds since the last call of an environment, or since the start."""
        return time.monotonic() - self._last_calls.get(env_id, self._opened)

    def push(self, groups: Sequence[ScoredData]) -> None:
        """Append groups to the queue: all of them, or none. Raises StorageFull."""
        added = []
        with self._transaction() as write:
            for group in groups:
                # With all keys, absent ones null: so a trainer gets it.
                cursor = write.execute(
                    "INSERT INTO groups (env_id, size, body) VALUES (?, ?, ?)",
                    (group.env_id, group.size, group.model_dump_json()),
                )
                # AUTOINCREMENT: numbers follow the order of arrival and are never used again.
                assert cursor.lastrowid is not None
                added.append(WaitingGroup(cursor.lastrowid, group.env_id, group.size))
            # The newest example changes, so the delivered one before it is of no more use.
            if added:
                write.execute("DELETE FROM groups WHERE batch = ?", (DELIVERED,))
        self.waiting += added

    def form_batch(self, groups: Sequence[WaitingGroup]) -> int:
        """Move groups from the queue into a batch, which counts as one step; return its id."""
        assert self.run is not None, "the trainer registers first"
        run = replace(self.run, step=self.run.step + 1)
        with self._transaction() as write:
            batch = write.execute("INSERT INTO batches DEFAULT VALUES").lastrowid
            write.executemany(
                "UPDATE groups SET batch = ? WHERE number = ?",
                [(batch, group.number) for group in groups],
            )
            write.execute("UPDATE run SET step = ?", (run.step,))
        assert batch is not None
        # Only after the commit, so that memory never runs ahead of the file.
        taken = {group.number for group in groups}
        self.run = run
        self.waiting = [group for group in self.waiting if group.number not in taken]
        self.undelivered.append(batch)
        return batch

    def read_batch(self, batch: int) -> list[str]:
        """Return the groups of a batch as JSON, in the order of arrival."""
        found = self._connection.execute(
            "SELECT body FROM groups WHERE batch = ? ORDER BY number", (batch,)
        )
        return [body for (body,) in found]

    def delivered(self, batch: int) -> None:
        """Forget a batch that a trainer has received; its newest group may stay as an example."""
        with self._transaction() as write:
            write.execute(
                # Kept for GET /latest_example, until another group arrives.
                "UPDATE groups SET batch = ? WHERE batch = ? AND "
                "number = (SELECT max(number) FROM groups)",
                (DELIVERED, batch),
            )
            write.execute("DELETE FROM groups WHERE batch = ?", (batch,))
            write.execute("DELETE FROM batches WHERE id = ?", (batch,))
        self.undelivered.remove(batch)

    def undelivered_groups(self) -> list[WaitingGroup]:
        """Return the groups of batches that were formed and not delivered."""
        found = self._connection.execute(
            "SELECT number, env_id, size FROM groups WHERE batch >= 0 ORDER BY number"
        )
        return [WaitingGroup(*row) for row in found]

    def latest(self) -> str | None:
        """Return the group that was pushed last, as JSON; None if there is none."""
        found = self._connection.execute("SELECT body FROM groups ORDER BY number DESC LIMIT 1")
        row = found.fetchone()
        return None if row is None else str(row[0])

    def reset(self) -> None:
        """Forget everything: registrations, groups, batches and the step."""
        with self._transaction() as write:
            for table in ("run", "envs", "groups", "batches"):
                write.execute(f"DELETE FROM {table}")
        self._load()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


MAX_SILENCE = 600.0
"""Seconds without any call of an environment."""
MIN_ENV_WEIGHT = 0.01
"""An environment of weight 0 may still run a little."""


def env_status(store: TrajectoryStore, env_id: int) -> EnvStatus:
    """Return the queue in units of the groups of a registered environment."""
    assert store.run is not None, "environments register after the trainer"
    # Batches that were formed and not delivered count as queued: the trainer has not had them.
    queue = [*store.waiting, *store.undelivered_groups()]
    own = _rows_of(queue, env_id)
    group_size = store.envs[env_id].registration.group_size
    minimum = minimum_rows(store)
    # Rows of another environment beyond its minimum share may fill this one's place.
    others = sum(
        max(0, _rows_of(queue, other) - minimum.get(other, 0))
        for other in {group.env_id for group in queue} - {env_id}
    )
    reserved = sum(
        env.registration.min_batch_allocation or 0.0 for env in store.envs if env.connected
    )
    return EnvStatus(
        current_step=store.run.step,
        queue_size=(own + others) // group_size,
        unallocated_fraction=1.0 - min(reserved, 1.0),
        self_queue_size=own // group_size,
        max_group_size=max((group.size for group in queue), default=1),
        env_weight=_weight(store, env_id),
    )


def minimum_rows(store: TrajectoryStore) -> dict[int | None, int]:
    """Return the rows that belong to each connected environment in every batch.

    An environment that has been silent for long has probably ended without notice, and no batch
    waits for it.
    """
    size = store.run.registration.batch_size if store.run else 0
    return {
        env_id: int(size * env.registration.min_batch_allocation)
        for env_id, env in enumerate(store.envs)
        if env.connected
        and env.registration.min_batch_allocation
        and store.seconds_silent(env_id) < MAX_SILENCE
    }


def _rows_of(queue: Sequence[WaitingGroup], env_id: int | None) -> int:
    return sum(group.size for group in queue if group.env_id == env_id)


def _weight(store: TrajectoryStore, env_id: int) -> float:
    """Return the environment's share of the weights, each times the length of its longest row."""
    weights = [
        env.registration.max_token_length * max(0.0, env.registration.weight) for env in store.envs
    ]
    total = sum(weight for weight, env in zip(weights, store.envs, strict=True) if env.connected)
    return max(MIN_ENV_WEIGHT, weights[env_id] / total if total else 0.0)
