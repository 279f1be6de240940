"""The command line in real processes, for tests."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from preloaded import arena_command

ONE_WORKER = {f"ARENA_{name}_WORKERS": "1" for name in ("BENCH", "EVAL", "TOURNAMENT")}
"""Variables for a few games in the command's process: starting others takes longer than they save.
Tests of several workers name them."""
ENVIRONMENT = {**os.environ, **ONE_WORKER, "PYTHONPATH": str(Path(__file__).parents[2])}


def arena(
    command: str,
    *more: str,
    cwd: Path,
    typed: str = "",
    environment: Mapping[str, str] = ENVIRONMENT,
) -> subprocess.CompletedProcess[str]:
    """Run the words of `command`, and `more`, in a process; `typed` is its standard input."""
    return subprocess.run(
        [*arena_command(), *command.split(), *more],
        cwd=cwd,
        env=environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def last_json(output: str) -> dict[str, object]:
    found = json.loads(output.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def started(command: str, cwd: Path) -> subprocess.Popen[str]:
    """The same, not waited for."""
    return subprocess.Popen(
        [*arena_command(), *command.split()],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def killed_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill a process at the end of the block, if it has not ended before."""
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    """Wait for the first line of a process, such as the address of a server."""
    assert process.stdout is not None and process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout=180):
            process.kill()
            pytest.fail(f"the process printed nothing: {process.stderr.read()}")
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return line


def wait_until(happened: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
