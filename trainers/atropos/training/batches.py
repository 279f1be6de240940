"""The batches of a trajectory API as a trainer takes them: one for each step, stored on disk."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from arena.core.errors import ArenaError, UsageError
from arena.episodes.files import write_whole
from trainers.atropos.client import (
    BatchLost,
    NoTrainer,
    ReceivedBatch,
    RefusedGroup,
    TrajectoryClient,
)
from trainers.atropos.wire import ScoredData, TrainerRegistration
from trainers.loop.training import TrainingView, reason_of


class _StoredBatch(BaseModel):
    # NaN may come from another server, and is stored as it came.
    model_config = ConfigDict(ser_json_inf_nan="constants")

    step: int
    groups: list[ScoredData]
    refused: list[RefusedGroup]


@dataclass(frozen=True, slots=True)
class BatchInbox:
    """Files in a run's folder. All writes replace a file as a whole; they raise OSError."""

    folder: Path

    @property
    def batch(self) -> Path:
        """The batch of the step in progress. A server hands out a batch once."""
        return self.folder / "batch.json"

    def quarantine(self, step: int) -> Path:
        """Return the file with the groups of a step's batch that were refused."""
        return self.folder / "quarantine" / f"{step:04d}.jsonl"

    def store(self, step: int, batch: ReceivedBatch) -> None:
        """Store the batch of a step until `clear`."""
        stored = _StoredBatch(step=step, groups=batch.groups, refused=batch.refused)
        write_whole(self.batch, stored.model_dump_json())

    def stored(self, step: int) -> ReceivedBatch | None:
        """Return the stored batch of a step; None without one, or if it is of another step."""
        try:
            stored = _StoredBatch.model_validate_json(self.batch.read_text("utf-8"))
        except (FileNotFoundError, ValidationError):
            # It is written as a whole, so a file that cannot be read is none of ours.
            return None
        if stored.step != step:
            return None
        return ReceivedBatch(stored.groups, stored.refused)

    def clear(self) -> None:
        """Remove the stored batch."""
        self.batch.unlink(missing_ok=True)

    def refuse(self, step: int, refused: Sequence[RefusedGroup]) -> None:
        """Write the refused groups of a step's batch, one per line, each with its reason."""
        if not refused:
            return
        path = self.quarantine(step)
        path.parent.mkdir(exist_ok=True)
        lines = (
            json.dumps({"step": step, "reason": one.reason, "group": one.content})
            for one in refused
        )
        # Replaced, not appended: a step that is repeated after a crash writes the same lines.
        write_whole(path, "".join(f"{line}\n" for line in lines))


POLL_SECONDS = 0.25
SILENCE = 60.0
"""Seconds without a batch after which the reason is looked for."""


class BatchSource:
    """Takes batches from one server and stores each until its step is finished.

    The caller closes the client.
    """

    def __init__(self, client: TrajectoryClient, inbox: BatchInbox, view: TrainingView) -> None:
        self._client = client
        self._inbox = inbox
        self._view = view
        self._registration: TrainerRegistration | None = None

    async def register(self, registration: TrainerRegistration) -> None:
        """Register the run, or continue it at the server. Raises ArenaError for another run."""
        self._registration = registration
        await self._client.register(registration)

    async def next(self, step: int) -> ReceivedBatch:
        """Return the batch of a step: the stored one of a killed run, or the server's next.

        Raises ArenaError.
        """
        if stored := self._inbox.stored(step):
            self._view.notify(f"step {step} repeats the batch that an earlier start has received")
            return stored
        batch = await self._wait()
        try:
            self._inbox.store(step, batch)
        except OSError as error:
            # A server hands out a batch once.
            await self._client.push(batch.groups)
            raise ArenaError(
                f"cannot write {self._inbox.batch}: {reason_of(error)}; the batch was not trained "
                "and is back in the queue"
            ) from error
        return batch

    async def _wait(self) -> ReceivedBatch:
        """Poll until there is a batch."""
        started, seconds = time.monotonic(), SILENCE
        self._view.phase("waiting for groups")
        while (batch := await self._take()) is None:
            if time.monotonic() - started > seconds:
                status = await self._client.status()
                self._view.notify(
                    f"no batch for {seconds:g} s: {status.queue_size} groups are waiting at "
                    f"{self._client.url}; is an environment running?"
                )
                seconds *= 2
            await self._check_group_size()
            await asyncio.sleep(POLL_SECONDS)
        return batch

    async def _take(self) -> ReceivedBatch | None:
        """Ask once, and register again if the server has been reset."""
        try:
            return await self._client.batch()
        except BatchLost as lost:
            self._view.notify(f"{lost}; going on with the next one")
            return None
        except NoTrainer:
            assert self._registration is not None, "registered before"
        self._view.notify(f"{self._client.url} was reset: registering again")
        await self.register(self._registration)
        return await self._client.batch()

    async def _check_group_size(self) -> None:
        """Raise UsageError for waiting groups that can never fill a batch."""
        assert self._registration is not None, "registered before"
        status = await self._client.status()
        if not status.queue_size:
            return
        size = await self._client.waiting_group_size()
        wanted = self._registration.batch_size
        # The server accepts such an environment and waits for ever.
        if size and wanted % size:
            raise UsageError(
                f"{self._client.url} holds groups of {size} rows, which does not divide the batch "
                f"of {wanted} rows: groups are never split; change --env.group_size of the "
                "environment, or --batch-size and --gradient-accumulation-steps"
            )
