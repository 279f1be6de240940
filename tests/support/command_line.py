"""The command line in real processes, for tests."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from preloaded import arena_command

# One process for a few games: starting more takes longer than they save. Tests of several say so.
ONE_WORKER = {f"ARENA_{name}_WORKERS": "1" for name in ("EVAL", "TOURNAMENT", "ANALYZE")}
ENVIRONMENT = {**os.environ, **ONE_WORKER, "PYTHONPATH": str(Path(__file__).parents[2])}


def arena(command: str, *more: str, cwd: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run the words of `command`, and `more`, in a process; `typed` is its standard input."""
    return subprocess.run(
        [*arena_command(), *command.split(), *more],
        cwd=cwd,
        env=ENVIRONMENT,
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
