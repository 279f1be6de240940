"""The loop of every training run: steps, records, resume. Groups come from a `GroupSource`.

A step takes groups from the source, updates the weights and is recorded. Record and checkpoint are
on disk before run.json names the step as finished, so a run that is killed at any point repeats the
step. There are two sources: games that the run plays itself (`grpo`), and batches of a trajectory
API (`trainers.atropos.trainer`).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from arena.core.errors import ArenaError, BackendError, StopPlaying, UsageError
from arena.episodes.files import write_whole
from arena.evaluation.document import Document
from arena.llm.ledger import Ledger
from trainers.config.config import TrainConfig
from trainers.hosts.host import TrainingHost
from trainers.loop.metrics import Timer, collapse_reason
from trainers.runs.document import document
from trainers.runs.records import (
    RunFiles,
    RunState,
    StepCosts,
    StepRecord,
    read_lines,
    read_records,
)
from trainers.runs.run_files import read_state
from trainers.runs.training_run import TrainingRun
from trainers.trajectory import TrajectoryGroup

KEPT_POOL = 8
"""Earlier checkpoints that are kept, evenly spaced. Opponents `past` are drawn from them."""
UPDATE_ATTEMPTS = 4
"""Attempts at an update that fails for a transient reason, with exponential back-off."""
FIRST_WAIT = 1.0
"""Seconds before the second attempt. The time doubles for each further attempt."""


class GroupSource(Protocol):
    """Source of the groups of a run, and the update by them. Methods are called in this order."""

    about: str
    """Description of the source, for the display."""

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Do what must be done before the host opens. What is opened goes on the stack."""

    async def open(self, stack: AsyncExitStack) -> None:
        """Open everything else. The host has the weights of the last finished step."""

    async def start(self, stack: AsyncExitStack) -> StepRecord | None:
        """Begin, after earlier steps were shown; returns record 0 for a new run, if it has one."""

    async def step(self, number: int, timer: Timer) -> StepRecord:
        """Take the groups of a step and update the weights; returns the record without times."""

    def recorded(self, record: StepRecord) -> None:
        """Take note that a step is finished on disk."""

    def kept(self) -> Collection[int]:
        """Return the steps whose checkpoints are still needed."""

    async def finish(self) -> dict[str, object]:
        """Do what follows the last step; returns changes of the run's state."""


class TrainingLoop:
    """A training run in progress."""

    def __init__(
        self,
        config: TrainConfig,
        host: TrainingHost,
        source: GroupSource,
        log: RunLog,
        view: TrainingView,
        report: ReportWriter | None = None,
    ) -> None:
        self.config = config
        self.host = host
        self.source = source
        self.log = log
        self.view = view
        self._report = report

    async def complete(self) -> RunState:
        """Do everything from the last finished step to the report.

        Raises ArenaError if the run cannot continue. Finished steps are on disk.
        """
        async with AsyncExitStack() as stack:
            try:
                await self.open(stack)
                while self.log.state.step < self.config.total_steps and not self.stopped:
                    await self.step()
                return await self.finish()
            except asyncio.CancelledError:  # Ctrl-C: the current step is dropped.
                self._commit(status="interrupted")
                raise
            except StopPlaying as stop:  # For example a spent budget.
                self._commit(status="interrupted", reason=str(stop))
                raise
            except OSError as error:
                folder = self.log.files.folder
                raise ArenaError(f"cannot write into {folder}: {reason_of(error)}") from error

    @property
    def stopped(self) -> str:
        """Reason of an early stop; empty while the run goes on."""
        return self.log.state.reason if self.log.state.status == "stopped" else ""

    async def open(self, stack: AsyncExitStack) -> None:
        """Load the weights, restore the state and record the starting policy."""
        # Unfinished files are removed before the host looks at its checkpoints.
        self.log.start(self.config)
        # Before the slow parts: making a base model and loading weights take up to minutes.
        self.view.start(self.config, self.log.state.step, self.source.about)
        stack.push_async_callback(self.host.close)
        await self.source.prepare(stack)
        # The host saves checkpoint k before run.json names step k, so it may be one step ahead.
        step = await self.host.open(self.log.state.step)
        await self.source.open(stack)
        if step and not self.log.records:
            raise UsageError(
                f"the host has a model of this name after {step} steps, but this run is new: "
                "choose another --experiment-name"
            )
        if step != self.log.state.step:
            self.view.notify(f"the host has already finished step {step}; its metrics are lost")
            self._commit(step=step)
        # A run that was stopped early does not continue.
        self._commit(status="stopped" if self.stopped else "running", reason=self.stopped, phase="")
        # A resumed run shows the records of its earlier sessions first.
        for record in self.log.records:
            self.view.step(record)
        first = await self.source.start(stack)
        if first is not None:
            self.log.append(first)
            self.view.step(first)

    async def step(self) -> None:
        """Do one step: groups, update, record."""
        timer = Timer()
        record = await self.source.step(self.log.state.step + 1, timer)
        times = {"time": timer.seconds, "seconds": timer.total}
        # From here on the step is finished. Old checkpoints are deleted last: a crash before this
        # point needs them, and a crash after it only leaves some for the next step.
        self.finish_step(record.model_copy(update=times))
        await self.host.keep(self.source.kept())

    def finish_step(self, record: StepRecord) -> None:
        """Write the record, then run.json: the step counts as finished once run.json names it."""
        # Any further step invalidates the final results.
        changes: dict[str, object] = {"step": record.step, "final": {}}
        if record.best and record.evaluation:
            delta = record.evaluation.delta
            changes |= {"best_step": record.step, "best_value": delta.value}
        self.log.append(record)
        if reason := collapse_reason(self.log.records):
            changes |= {"status": "stopped", "reason": reason}
            self.view.notify(f"stopped: {reason}")
        self._commit(**changes)
        self.source.recorded(record)
        self.view.step(record)

    async def finish(self) -> RunState:
        """Finish the source, record the end and write the report."""
        changes = await self.source.finish()
        self._commit(**changes, status="stopped" if self.stopped else "finished")
        if self._report is not None:
            self._report(document(self.log.run(self.config)), self.log.files.report)
        return self.log.state

    def _commit(self, **changes: object) -> None:
        self.log.commit(self.log.state.model_copy(update=changes))


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

    def spent(self) -> tuple[float, int]:
        """Return the US dollars and the tokens of all sessions of the run so far."""
        lines = [line.total for line in read_lines(self.files.ledger, StepCosts)]
        tokens = (line.prompt_tokens + line.completion_tokens for line in lines)
        return sum(line.cost for line in lines), sum(tokens)

    def commit(self, state: RunState) -> None:
        """Replace run.json. From here on the step of `state` is finished."""
        self.state = state
        write_whole(self.files.state, state.model_dump_json(indent=1) + "\n")

    def run(self, config: TrainConfig) -> TrainingRun:
        """Return the run so far."""
        return TrainingRun(self.files, config, self.state, self.records)


def kept_steps(state: RunState, *also: int) -> set[int]:
    """Return the steps whose checkpoints are kept: the newest, the best and an even pool."""
    # The steps of the next KL reference and of the weights that play come as `also`.
    best = () if state.best_step is None else (state.best_step,)
    return {state.step, *best, *also, *pool_steps(state.step)}


def pool_steps(newest: int) -> Sequence[int]:
    """Return at most KEPT_POOL steps from 0 on: multiples of the smallest sufficient power of two.

    As the steps grow, the stride only doubles. So a step that was dropped is never needed again.
    """
    stride = 1
    while newest // stride + 1 > KEPT_POOL:  # The number of multiples, 0 among them.
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


class ReportWriter(Protocol):
    """Function that writes a run's report to `path`. The command line passes it to `train`."""

    def __call__(self, document: Document, path: Path) -> None: ...
