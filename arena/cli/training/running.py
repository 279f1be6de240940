"""A training loop from the command line: threads, display, interruption, exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import TYPE_CHECKING, Any

from arena.cli.common.terminal import echo
from arena.core.errors import ArenaError
from arena.core.text import pluralize

if TYPE_CHECKING:
    from trainers.runs.records import RunFiles, RunState
    from trainers.runs.view import TrainingView


def let_threads_sleep() -> None:
    """Let threads that wait for each other in a matrix product sleep; call it before torch loads.

    On busy cores, an update took twenty times as long with spinning threads.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def run_training(
    files: RunFiles,
    as_json: bool,
    start: Callable[[TrainingView], Coroutine[Any, Any, RunState]],
) -> tuple[RunState, bool]:
    """Run a loop with a display; return the final state, and whether it was interrupted.

    Raises ArenaError if the folder of the run cannot be written.
    """
    # Imported here: the help of all commands imports this module.
    from trainers.runs.run_files import read_state

    try:
        with closing(training_view(as_json)) as view:
            state = asyncio.run(start(view))
    except KeyboardInterrupt:
        return read_state(files), True
    except OSError as error:
        raise ArenaError(f"cannot write into {files.folder}: {error.strerror}") from None
    return state, state.status == "interrupted"


def training_view(as_json: bool) -> TrainingView:
    """Return the display for this terminal."""
    if as_json or not sys.stderr.isatty():
        from arena.cli.training.plain_progress import TrainingLines

        return TrainingLines()
    from rich.console import Console

    from replays.tui.training import TrainingLive

    return TrainingLive(Console(stderr=True))


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
