"""Files of the batches of a run: the one in training, and the groups that were refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from arena.episodes.files import write_whole
from trainers.atropos.client import ReceivedBatch, RefusedGroup


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

    def stored(self, step: int) -> ReceivedBatch | None:
        """Return the stored batch of a step; None without one, or if it is of another step."""
        try:
            stored = ReceivedBatch.model_validate_json(self.batch.read_text("utf-8"))
        except (FileNotFoundError, ValidationError):
            # It is written as a whole, so a file that cannot be read is none of ours.
            return None
        return stored if stored.step == step else None

    def clear(self) -> None:
        """Remove the stored batch."""
        self.batch.unlink(missing_ok=True)

    def refuse(self, step: int, refused: Sequence[RefusedGroup]) -> None:
        """Write the refused groups of a step's batch, one per line, each with its reason."""
        if not refused:
            return
        path = self.quarantine(step)
        path.parent.mkdir(exist_ok=True)
        lines = (json.dumps({"step": step, **one.model_dump()}) for one in refused)
        # Replaced, not appended: a step that is repeated after a crash writes the same lines.
        write_whole(path, "".join(f"{line}\n" for line in lines))
