"""A training loop from the command line: display, interruption, exit code and result."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from arena.cli.flags import Flag, JsonFlag
from arena.cli.terminal import echo, progress_bar
from arena.core.errors import ArenaError, StopPlaying
from arena.core.text import pluralize, printable
from arena.plugins.loader import make_game
from trainers.runs.records import RunFiles, RunState, StepRecord, as_json
from trainers.runs.run_files import Plan, open_run, read_state
from trainers.runs.sentences import checkpoint_name, delta_line, step_line
from trainers.runs.training_run import TrainingRun

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from trainers.config.config import TrainConfig
    from trainers.loop.training import TrainingView


@dataclass(frozen=True, slots=True)
class ResumeFlags:
    """How a run starts, and how its result is printed."""

    resume: Annotated[
        bool | None,
        Flag(
            "--resume/--fresh",
            help="Require an existing run, or start a new one and move the old folder aside. "
            "Default: resume if it exists.",
        ),
    ] = None
    as_json: JsonFlag = False


def let_threads_sleep() -> None:
    """Let threads that wait for each other in a matrix product sleep; call it before torch loads.

    On busy cores, an update took twenty times as long with spinning threads.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def conduct(
    config: TrainConfig,
    plan: Plan,
    flags: ResumeFlags,
    start: Callable[[RunFiles, TrainingView], Coroutine[Any, Any, RunState]],
) -> int:
    """Run a loop in the folder of its run, print the result, and return the exit code."""
    with open_run(plan) as files:
        state, interrupted = run_training(files, flags.as_json, partial(start, files))
        run = TrainingRun(files, config, state, ())
        if flags.as_json:
            print(json.dumps(result_json(run)))
        elif not interrupted:
            print("\n".join(result_lines(run)))
        return exit_code(state, config.total_steps, interrupted, flags.resume)


def run_training(
    files: RunFiles, as_json: bool, start: Callable[[TrainingView], Coroutine[Any, Any, RunState]]
) -> tuple[RunState, bool]:
    """Run a loop with a display; return the final state, and whether it was interrupted.

    Raises ArenaError if the folder of the run cannot be written, and what ended the loop.
    """
    try:
        with closing(TrainingLines(with_bar=not as_json)) as view:
            state = asyncio.run(start(view))
    except KeyboardInterrupt:
        return read_state(files), True
    except StopPlaying:
        finished = pluralize(read_state(files).step, "step")
        echo(f"Kept: {finished}; the same command resumes the run", file=sys.stderr)
        raise
    except OSError as error:
        raise ArenaError(f"cannot write into {files.folder}: {error.strerror}") from None
    return state, state.status == "interrupted"


def exit_code(state: RunState, total_steps: int, interrupted: bool, resume: bool | None) -> int:
    """Return the exit code; if the run has ended early, say why on standard error.

    `resume` is the flag: False for --fresh.
    """
    if interrupted:
        condition = " without --fresh" if resume is False else ""
        echo(
            f"Interrupted: {state.step} of {pluralize(total_steps, 'step')} are finished and "
            f"saved; the same command{condition} resumes the run",
            file=sys.stderr,
        )
        return 130
    if state.status == "stopped":
        echo(f"Stopped early: {state.reason}", file=sys.stderr)
        return 1
    return 0


class TrainingLines:
    """A `TrainingView` on stderr: a line for each step, and on a terminal a bar of the phase."""

    def __init__(self, with_bar: bool = True) -> None:
        self._steps = self._done = self._shown = 0
        self._messages: set[str] = set()
        self._progress = progress_bar(hidden=not with_bar, transient=True)
        self._bar = self._progress.add_task("starting", total=None)

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        self._steps, self._done, self._shown = config.total_steps, done, done
        steps = pluralize(self._steps, "step") + (f", {done} of them done" if done else "")
        self.notify(f"{config.experiment}: {config.game}, {steps}; {about}")
        self._progress.start()

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        from rich.markup import escape

        step = min(self._shown + 1, self._steps)
        words = escape(f"step {step}/{self._steps}: {printable(name)}")
        self._progress.update(self._bar, description=words, completed=done, total=total or None)

    def step(self, record: StepRecord) -> None:
        if record.step < self._done or record.step == self._done > 0:
            return  # An earlier session has shown it.
        self._shown = record.step
        self.notify(step_line(record, self._steps))
        for warning in record.warnings:
            if f"warning: {warning}" not in self._messages:
                self.notify(f"warning: {warning}")

    def notify(self, line: str) -> None:
        self._messages.add(line)
        print(printable(line), file=sys.stderr, flush=True)

    def close(self) -> None:
        self._progress.stop()


def result_json(run: TrainingRun) -> dict[str, JsonValue]:
    """Return what `--json` prints at the end."""
    checkpoint = _checkpoint(run)
    return {
        "experiment": run.name,
        "step": run.state.step,
        "status": run.state.status,
        "reason": run.state.reason,
        "final": as_json(run.state)["final"],
        "folder": str(run.files.folder),
        "report": str(run.files.report) if run.files.report.exists() else None,
        "checkpoint": str(checkpoint) if checkpoint else None,
    }


def result_lines(run: TrainingRun) -> Iterator[str]:
    """Yield the results, where the files are, and the command that plays the checkpoint."""
    yield f"Finished steps: {run.state.step} of {run.total_steps}."
    for evaluation in run.final_evaluations():
        yield f"{checkpoint_name(evaluation).capitalize()}: {delta_line(evaluation)}"
    exists = run.files.report.exists()
    yield f"Report:  {run.files.report}" if exists else f"Run:     {run.files.folder}"
    if run.files.replays.is_dir():
        yield f"Replays: {run.files.replays}"
    checkpoint = _checkpoint(run)
    if checkpoint and run.config:
        # A run on batches does not know what is played.
        command = f"arena play GAME --seat 0=embedded:{checkpoint}"
        yield f"Play it: {play_command(run.config, checkpoint) if run.make_game() else command}"


def _checkpoint(run: TrainingRun) -> Path | None:
    """Return the best checkpoint, or the newest one if none was better than the start."""
    step = run.state.step if run.state.best_step is None else run.state.best_step
    return run.files.checkpoint(step)


def play_command(config: TrainConfig, checkpoint: Path) -> str:
    """Return the command that plays a checkpoint with the game options of its training."""
    words = ["arena", "play", config.game]
    defaults = make_game(config.game).options.model_dump(mode="json")
    for name, value in config.options.items():
        if value == defaults.get(name):
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--players", text] if name == "players" else ["-o", f"{name}={text}"]
    words += ["--text-level", config.text_level, "--seat", f"0=embedded:{checkpoint}"]
    return shlex.join(words)
