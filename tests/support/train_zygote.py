"""A process that imports what training needs once, and then forks a child for each run.

It reads one order a line from its standard input, as JSON, and writes what happens to its standard
output: `child` with the process to kill, `moment` when the run has come to the moment that was
asked for (there it waits, if told to), and `ended`.

A moment is something that the run is about to do to a file, or a phase that it has begun, after the
last step that it has finished: `1: rename run.json`. Files are watched by an audit hook: nothing of
the product is replaced.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

RARE = ("polars", "pyarrow.parquet", "tokenizers", "starlette.applications", "httpx", "openai")
"""Imported by the libraries only when they are first used; once for all children."""


class Moments:
    """Notes each moment, tells the one that is wanted, and waits there."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._folder = os.path.realpath(order["folder"])
        self._wanted = re.compile(order["at"]) if order.get("at") else None
        self._waits, self._largest = order["waits"], order["largest"]
        self.finished = -1
        """The last finished step."""
        self._busy = False

    def at(self, what: str) -> None:
        name = f"{self.finished}: {what}"
        if self._wanted is not None and self._wanted.fullmatch(name):
            self._wanted = None
            tell(moment=name)
            if self._largest:
                resource.setrlimit(resource.RLIMIT_FSIZE, (self._largest, self._largest))
            if self._waits:
                time.sleep(60)

    def audit(self, event: str, given: tuple[Any, ...]) -> None:
        """The interpreter calls this before it opens, renames or removes anything."""
        if event == "open" and isinstance(given[0], str) and self._writes(given[2]):
            self._on_file("open", given[0])
        elif event in ("os.rename", "shutil.rmtree", "os.remove"):
            path = given[1] if event == "os.rename" else given[0]
            if isinstance(path, str | os.PathLike):
                self._on_file(event.partition(".")[2], os.fspath(path))

    @staticmethod
    def _writes(flags: object) -> bool:
        return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))

    def _on_file(self, deed: str, path: str) -> None:
        if self._busy or not path.startswith(self._folder + os.sep):
            return
        self._busy = True
        try:
            self.at(f"{deed} {path[len(self._folder) + 1 :]}")
        finally:
            self._busy = False


class Watching:
    """A TrainingView that knows how far the run is."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def begin(self, config: object, done: int, about: str) -> None:
        self._moments.at("begin")

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        self._moments.at(f"phase {name} {done}")

    def step(self, record: Any) -> None:
        self._moments.finished = record.step

    def say(self, line: str) -> None:
        self._moments.at(f"say {line}")

    def close(self) -> None: ...


def tell(**facts: Any) -> None:
    os.write(PIPE, (json.dumps(facts) + "\n").encode())


def run(order: dict[str, Any]) -> int:
    """What the forked child does; its exit code."""
    from scripted_table import quick

    from arena.core.errors import ArenaError
    from replays.html_report.training.report import write_training_report
    from trainers.config.config import TrainConfig
    from trainers.grpo import train

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # So that writing too much is an OSError.
    moments = Moments(order)
    sys.addaudithook(moments.audit)
    view = Watching(moments)
    config = TrainConfig(**order["config"])
    training = train(
        config,
        folder=Path(order["folder"]),
        view=view,
        settings=quick(),
        report=write_training_report,
    )
    try:
        asyncio.run(training)
    except KeyboardInterrupt:
        return 130
    except (ArenaError, OSError) as error:
        tell(error=str(error), kind=type(error).__name__)
        return 1
    return 0


def make_base(folder: Path) -> int:
    """A model that plays at random, however it is guided."""
    from tiny_model import build_tiny_model

    build_tiny_model(
        folder, layers=1, width=32, heads=2, kv_heads=1, head_dim=16, inner=64, context=768
    )
    return 0


def main() -> None:
    import importlib

    for name in (
        "trainers.grpo",
        "trainers.hosts.embedded",
        "trainers.hosts.embedded_backend",
        *RARE,
    ):
        importlib.import_module(name)
    importlib.import_module("backends.server.app")
    importlib.import_module("replays.html_report.training.report")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                order = json.loads(line)
                code = make_base(Path(order["base"])) if "base" in order else run(order)
            finally:
                if code == 70:
                    import traceback

                    traceback.print_exc()
                os._exit(code)
        tell(child=child)
        _, status = os.waitpid(child, 0)
        tell(ended=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    PIPE = os.dup(1)
    os.dup2(2, 1)  # What libraries print is no message.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
    os._exit(0)  # What the libraries do at their end takes seconds.
