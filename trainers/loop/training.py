"""What every training run does around its steps: start or resume, record, end.

Record and checkpoint of a step are on disk before run.json names the step as finished, so a run
that is killed at any point repeats the step. The steps themselves are those of `grpo`, and of
`trainers.atropos.trainer`, which trains on the batches of a trajectory API.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from arena.core.errors import ArenaError, StopPlaying, UsageError
from arena.episodes.files import write_whole
from arena.evaluation.records import Interval
from arena.evaluation.statistics import UNBOUNDED, clustered_mean
from trainers.config.config import TrainConfig
from trainers.hosts.host import TrainingHost
from trainers.rollouts.trajectories import RolloutCounts
from trainers.runs.records import (
    RunFiles,
    RunState,
    StepRecord,
    TermMean,
    TokenCounts,
    finite_metrics,
    read_records,
)
from trainers.runs.training_run import read_state

KEPT_POOL = 8
"""Earlier checkpoints that are kept, evenly spaced. Opponents `past` are drawn from them."""
MIXTURE_POOL = 32
"""The same with --self-play, for the mixture that is its average policy."""


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
        self.log.change(status="running", reason="", phase="")
        for record in self.log.records:
            self.view.step(record)

    def steps(self) -> Iterator[int]:
        """Yield the numbers of the steps to do."""
        while self.log.state.step < self.config.steps:
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
        if changes:
            self.log.change(**changes)

    def finish(self, **changes: object) -> RunState:
        """Record the end of the run; returns the final state."""
        self.log.change(**changes, status="finished")
        return self.log.state


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
        self.files.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.files.config, config.model_dump_json(indent=1) + "\n")
        # Rewrites the file without records of unfinished steps and without an incomplete line.
        write_whole(self.files.metrics, "".join(map(_line, self.records)))
        for replays in self.files.replays.glob("step*"):
            if not replays.name[4:].isdigit() or int(replays.name[4:]) > finished:
                shutil.rmtree(replays)

    def append(self, record: StepRecord) -> None:
        """Append a record and flush it to disk, before the step counts as finished."""
        self.records.append(record)
        with self.files.metrics.open("a", encoding="utf-8") as file:
            file.write(_line(record))
            file.flush()
            # Without fsync, a crash of the machine could lose the record of a finished step.
            os.fsync(file.fileno())

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


@dataclass(slots=True)
class Timer:
    """Stopwatch of a step's phases."""

    seconds: dict[str, float] = field(default_factory=dict)
    _start: float = field(default_factory=time.perf_counter)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the duration of the body to a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    @property
    def total(self) -> float:
        """Seconds since the stopwatch was created."""
        return time.perf_counter() - self._start


def step_record(
    config: TrainConfig,
    step: int,
    counts: RolloutCounts,
    weights: Mapping[str, float],
    update: Mapping[str, object],
) -> StepRecord:
    """Return the record of a step's games and update; `weights` are those of the reward terms."""
    # Sorted, since the order of completion differs between runs and float sums depend on order.
    results = sorted(counts.results)
    deals = [one.deal for one in results]
    # An overflow counts as a reply but has no tokens.
    received = counts.replies - counts.context_overflow
    metrics = finite_metrics(update)
    return StepRecord(
        step=step,
        config_hash=config.config_hash,
        games=counts.games,
        decisions=counts.decisions,
        context_overflow=counts.context_overflow,
        win_rate=_mean([float(one.won) for one in results], deals, (0.0, 1.0)),
        reward=_mean([one.reward for one in results], deals),
        # Terms without a weight are logged only.
        terms={
            name: _term(values, weights.get(name, 0.0)) for name, values in counts.terms.items()
        },
        failed=counts.failed,
        tokens=TokenCounts(
            prompt=counts.prompt,
            sampled=counts.sampled,
            # 0 if the host does not count tokens.
            trained=int(metrics.get("tokens_trained", 0)),
            computed=int(metrics.get("tokens_computed", 0)),
        ),
        legal_rate=counts.legal / counts.replies if counts.replies else None,
        reply_tokens=counts.sampled / received if received else None,
        update=metrics,
    )


def staleness_metrics(config: TrainConfig, step: int) -> dict[str, float]:
    """Return the age of the weights that played a step, in steps; empty if they are the newest."""
    if config.sync_every == 1:
        return {}
    return {"staleness": float(step - 1 - config.sampling_step(step - 1))}


def _mean(
    values: Sequence[float], deals: Sequence[int], bounds: tuple[float, float] = UNBOUNDED
) -> Interval:
    """Return the mean over games with a cluster-robust interval: a cluster is a deal."""
    if not values:
        return Interval()
    # Games of one deal share its luck, so the deal is the unit of the interval.
    return Interval.of(clustered_mean(values, deals, bounds=bounds))


def _term(found: Sequence[tuple[int, float]], weight: float) -> TermMean:
    deals, values = zip(*sorted(found), strict=True)
    mean, ends = math.fsum(values) / len(values), _mean(values, deals)
    return TermMean(mean=mean, weight=weight, low=ends.low, high=ends.high)


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
