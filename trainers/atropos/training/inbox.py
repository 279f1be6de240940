"""Batches on disk: the one that is being trained, and the groups that were refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from arena.episodes.files import write_whole
from trainers.atropos.client import ReceivedBatch, RefusedGroup
from trainers.atropos.wire import ScoredData


class _StoredRefusal(BaseModel):
    reason: str
    content: JsonValue


class _StoredBatch(BaseModel):
    # NaN may come from another server, and is stored as it came.
    model_config = ConfigDict(ser_json_inf_nan="constants")

    step: int
    groups: list[ScoredData]
    refused: list[_StoredRefusal]


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
        refused = [_StoredRefusal(reason=r.reason, content=r.content) for r in batch.refused]
        stored = _StoredBatch(step=step, groups=batch.groups, refused=refused)
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
        return ReceivedBatch(
            stored.groups, [RefusedGroup(r.reason, r.content) for r in stored.refused]
        )

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
