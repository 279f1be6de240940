"""What a run keeps on disk, so that it goes on from its last finished step whatever ended it.

The order of a step: the host saves the checkpoint of step k + 1; ART's log is written; the row is
appended to metrics.jsonl; run.json says that the step is finished. Whatever is there
beyond what run.json says was not finished: it is removed when the run goes on, and the step is done
again, with the same seeds.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arena.episodes.files import write_whole
from trainers.config.config import TrainConfig
from trainers.runs.records import RunFiles, RunState, StepRecord
from trainers.runs.run_files import read_rows, read_state

ART_TOTALS = "_metrics_builder_state"
"""ART's name for what it has added up (art.model.METRICS_BUILDER_STATE_KEY)."""


class RunLog:
    """The files of one run."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError if run.json is there and cannot be read."""
        self.files = RunFiles(folder)
        self.state = read_state(self.files)
        self.records: list[StepRecord] = []

    def begin(self, config: TrainConfig) -> None:
        """Make the folder, or remove what a killed run has left unfinished."""
        finished = self.state.step
        self.records = [row for row in read_rows(self.files) if row.step <= finished]
        self.files.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.files.config, config.model_dump_json(indent=1) + "\n")
        write_whole(self.files.metrics, "".join(map(_line, self.records)))
        for replays in self.files.replays.glob("step*"):
            if not replays.name[4:].isdigit() or int(replays.name[4:]) > finished:
                shutil.rmtree(replays)

    def append(self, record: StepRecord) -> None:
        """A row for a step; flushed, so that it is there before the step counts as finished."""
        self.records.append(record)
        with self.files.metrics.open("a", encoding="utf-8") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())

    def commit(self, state: RunState) -> None:
        """From here on the step is finished."""
        self.state = state
        write_whole(self.files.state, state.model_dump_json(indent=1) + "\n")


def go_back(folder: Path, step: int) -> None:
    """Make ART's history.jsonl and state.json in this folder what they were after this step.

    A killed run may have logged a step there that was not finished. ART keeps running totals in
    state.json, which would count that step twice, and may have left half a file: it does not
    replace it at once. Its rows hold the same totals.
    """
    history, state = folder / "history.jsonl", folder / "state.json"
    lines = history.read_text("utf-8").splitlines(keepends=True) if history.exists() else []
    rows = [row for row in map(_row_of, lines) if row is not None and row.get("step", 0) <= step]
    if len(rows) < len(lines):
        write_whole(history, "".join(json.dumps(row) + "\n" for row in rows))
    if state.exists():
        kept = _row_of(state.read_text("utf-8")) or {}
        totals = {name: row[name] for row in rows for name in row if "/cum/" in name}
        kept[ART_TOTALS] = kept.get(ART_TOTALS, {}) | {"cum_state": totals}
        write_whole(state, json.dumps(kept, indent=2))


def _row_of(text: str) -> dict[str, Any] | None:
    """The object that a text holds; None for half of one."""
    try:
        row = json.loads(text)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def kept_steps(state: RunState, pool: int, every: Iterable[int], *also: int) -> set[int]:
    """The steps whose checkpoints stay: the latest, the best, and a pool that is spread evenly."""
    known = sorted({*every, state.step})
    kept = {state.step, *also}
    if state.best_step is not None:
        kept.add(state.best_step)
    return kept | set(evenly(known, pool))


def why(error: OSError) -> str:
    """The reason alone, in one line; of several files that could not be copied the first one's."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        return str(error.args[0][0][2])
    return error.strerror or str(error)


def evenly(steps: Sequence[int], count: int) -> list[int]:
    """At most `count` of the steps: the multiples of the smallest power of two that are so few.

    So a step that was dropped once is never wanted again.
    """
    if not steps or count <= 0:
        return []
    stride = 1
    while len([step for step in steps if step % stride == 0]) > count:
        stride *= 2
    return [step for step in steps if step % stride == 0]


def _line(record: StepRecord) -> str:
    return record.model_dump_json() + "\n"
