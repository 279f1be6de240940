"""What every training run does around its steps: start or resume, record, end.

Record and checkpoint of a step are on disk before run.json names the step as finished, so a run
that is killed at any point repeats the step. The steps themselves are those of `grpo`, and of
`trainers.atropos.trainer`, which trains on the batches of a trajectory API.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from arena.core.errors import ArenaError, BackendError, StopPlaying, UsageError
from arena.episodes.files import write_whole
from arena.llm.ledger import Ledger
from trainers.config.config import TrainConfig
from trainers.hosts.host import TrainingHost
from trainers.loop.metrics import collapse_reason
from trainers.runs.records import (
    RunFiles,
    RunState,
    StepCosts,
    StepRecord,
    read_lines,
    read_records,
)
from trainers.runs.training_run import read_state
from trainers.trajectory import TrajectoryGroup

KEPT_POOL = 8
"""Earlier checkpoints that are kept, evenly spaced. Opponents `past` are drawn from them."""
MIXTURE_POOL = 32
"""The same with --self-play, for the mixture that is its average policy."""
UPDATE_ATTEMPTS = 4
"""Attempts at an update that fails for a transient reason, with exponential back-off."""
FIRST_WAIT = 1.0
"""Seconds before the second attempt. The time doubles for each further attempt."""


class Session:
    """A run in progress: its files, its display, and the host of its weights."""

    def __init__(
        self, config: TrainConfig, host: TrainingHost, folder: Path, view: TrainingView, about: str
    ) -> None:
        """Read the state of the run; `about` says for the display from where its games come."""
        self.config = config
        self.host = host
        self.log = RunLog(folder)
        self.view = view
        self._about = about

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AsyncExitStack]:
        """Prepare the folder; yield the stack of what the end of the run closes.

        Raises ArenaError if the run cannot continue. Finished steps are on disk.
        """
        async with AsyncExitStack() as stack:
            try:
                # Unfinished files are removed before the host looks at its checkpoints.
                self.log.start(self.config)
                # Before the slow parts: making a base model and loading weights take minutes.
                self.view.start(self.config, self.log.state.step, self._about)
                stack.push_async_callback(self.host.close)
                yield stack
            except asyncio.CancelledError:  # Ctrl-C: the current step is dropped.
                self.log.change(status="interrupted")
                raise
            except StopPlaying as stop:  # For example a spent budget.
                self.log.change(status="interrupted", reason=str(stop))
                raise
            except OSError as error:
                folder = self.log.files.folder
                raise ArenaError(f"cannot write into {folder}: {reason_of(error)}") from error

    async def load_weights(self) -> None:
        """Open the host with the weights of the last finished step, and show the steps so far."""
        # The host saves checkpoint k before run.json names step k, so it may be one step ahead.
        step = await self.host.open(self.log.state.step)
        if step and not self.log.records:
            raise UsageError(
                f"the host has a model of this name after {step} steps, but this run is new: "
                "choose another --experiment-name"
            )
        if step != self.log.state.step:
            self.view.notify(f"the host has already finished step {step}; its metrics are lost")
            self.log.change(step=step)
        # A run that was stopped early does not continue.
        reason = self.stopped
        self.log.change(status="stopped" if reason else "running", reason=reason, phase="")
        for record in self.log.records:
            self.view.step(record)

    @property
    def stopped(self) -> str:
        """Reason of an early stop; empty while the run goes on."""
        return self.log.state.reason if self.log.state.status == "stopped" else ""

    def steps(self) -> Iterator[int]:
        """Yield the numbers of the steps to do, until the last one, or an early stop."""
        while self.log.state.step < self.config.total_steps and not self.stopped:
            yield self.log.state.step + 1

    def record(self, record: StepRecord) -> None:
        """Write the record, then run.json: the step counts as finished once run.json names it."""
        # Any further step invalidates the final results.
        changes: dict[str, object] = {}
        if record.step:
            changes = {"step": record.step, "final": {}, "exploitability": {}}
        if record.best and record.evaluation:
            delta = record.evaluation.delta
            changes |= {"best_step": record.step, "best_value": delta.value}
        self.log.append(record)
        if reason := collapse_reason(self.log.records):
            changes |= {"status": "stopped", "reason": reason}
            self.view.notify(f"stopped: {reason}")
        if changes:
            self.log.change(**changes)

    def finish(self, **changes: object) -> RunState:
        """Record the end of the run; returns the final state."""
        self.log.change(**changes, status="stopped" if self.stopped else "finished")
        return self.log.state


async def update_weights(
    host: TrainingHost, groups: Sequence[TrajectoryGroup], kl_reference: int
) -> dict[str, float]:
    """Update the weights and return the host's metrics; retry after a transient failure."""
    retrying = AsyncRetrying(
        stop=stop_after_attempt(UPDATE_ATTEMPTS),
        wait=wait_exponential(multiplier=FIRST_WAIT, max=30),
        retry=retry_if_exception(_is_transient),
        reraise=True,
    )
    try:
        return await retrying(host.train, groups, kl_reference)
    except (ConnectionError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise ArenaError(
            f"the update failed {UPDATE_ATTEMPTS} times, the last time with: {reason}"
        ) from None


def _is_transient(error: BaseException) -> bool:
    """Return whether a failed update may be retried. Nothing was trained in these cases."""
    return isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, BackendError) and error.retryable
    )


class RunLog:
    """Writer of the files of one run.

    Order within step k: the host saves checkpoint k, the record is appended to metrics.jsonl,
    run.json marks the step as finished. Everything beyond the step in run.json is unfinished: it is
    removed when the run is resumed, and the step is repeated with the same seeds.
    """

    def __init__(self, folder: Path) -> None:
        """Read the state. Raises UsageError if run.json exists and cannot be read."""
        self.files = RunFiles(folder)
        self.state = read_state(self.files)
        self.records: list[StepRecord] = []

    def start(self, config: TrainConfig) -> None:
        """Create the folder, or remove what a killed run has left unfinished."""
        finished = self.state.step
        records = read_records(self.files.metrics)
        self.records = [record for record in records if record.step <= finished]
        costs = len(read_lines(self.files.ledger, StepCosts))
        self.files.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.files.config, config.model_dump_json(indent=1) + "\n")
        # Rewrites the file without records of unfinished steps and without an incomplete line.
        write_whole(self.files.metrics, "".join(map(_line, self.records)))
        if self.files.ledger.exists():
            lines = self.files.ledger.read_text("utf-8").split("\n")[:costs]
            write_whole(self.files.ledger, "".join(f"{line}\n" for line in lines))
        for replays in self.files.replays.glob("step*"):
            if not replays.name[4:].isdigit() or int(replays.name[4:]) > finished:
                shutil.rmtree(replays)

    def append(self, record: StepRecord) -> None:
        """Append a record and flush it to disk, before the step counts as finished."""
        self.records.append(record)
        _append(self.files.metrics, _line(record))

    def append_costs(self, step: int, ledger: Ledger) -> None:
        """Append the calls that were made since the last line to ledger.jsonl."""
        _append(self.files.ledger, json.dumps({"step": step, **ledger.to_json()}) + "\n")

    def spent(self) -> float:
        """Return the US dollars of all sessions of the run so far."""
        return sum(line.total.cost for line in read_lines(self.files.ledger, StepCosts))

    def change(self, **changes: object) -> None:
        """Replace run.json by the state with these changes. From here on its step is finished."""
        self.state = self.state.model_copy(update=changes)
        write_whole(self.files.state, self.state.model_dump_json(indent=1) + "\n")


def kept_steps(state: RunState, *also: int) -> set[int]:
    """Return the steps whose checkpoints are kept: the newest, the best and an even pool."""
    # The steps of the next KL reference and of the weights that play come as `also`.
    best = () if state.best_step is None else (state.best_step,)
    return {state.step, *best, *also, *pool_steps(state.step)}


def pool_steps(newest: int, most: int | None = None) -> Sequence[int]:
    """Return at most `most` steps from 0 on: multiples of the smallest sufficient power of two.

    As the steps grow, the stride only doubles. So a step that was dropped is never needed again.
    """
    stride, most = 1, KEPT_POOL if most is None else most
    while newest // stride + 1 > most:  # The number of multiples, 0 among them.
        stride *= 2
    return range(0, newest + 1, stride)


def reason_of(error: OSError) -> str:
    """Return the reason of a failed write in one line; the first of several."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        return str(error.args[0][0][2])
    return error.strerror or str(error)


def _line(record: StepRecord) -> str:
    return record.model_dump_json() + "\n"


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
        file.flush()
        # Without fsync, a crash of the machine could lose the record of a finished step.
        os.fsync(file.fileno())


class TrainingView(Protocol):
    """Display of a run while it is going on."""

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        """Start the display after `done` finished steps; `about` names the host."""

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        """Show the current phase (`rollouts`, `update`, `evaluation`, …) and its progress."""

    def step(self, record: StepRecord) -> None:
        """Show a finished step. A resumed run first passes the records of earlier sessions."""

    def notify(self, line: str) -> None:
        """Show a warning or a message."""

    def close(self) -> None:
        """End the display."""
