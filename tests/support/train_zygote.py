"""A process that imports the training packages once and then forks a child for each run.

It reads one order per line from standard input, as JSON, and writes events to standard output:
`moment` when the run reaches the requested moment, where it gets the signal of the order or a full
disk, `error` and `kind` of what it raises, and `ended` with its exit code.

A moment is an operation on a file that the run is about to do, or the start of a phase, with the
last finished step: `1: rename run.json`. An audit hook watches the files: no part of the product is
replaced.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import resource
import signal
import sys
from pathlib import Path
from typing import Any

RARE = (
    *("tokenizers", "httpx", "psutil", "games.kuhn_poker.game"),
    "torch._dynamo",  # An optimizer imports it in its first step, for a second and a half.
    *("scipy.optimize", "backends.embedded.sampler", "backends.scripted", "scripted_table"),
)
"""Modules that are imported lazily; imported once for all children."""


class Moments:
    """Compares each moment with the requested one; reports it, and waits there."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._folder = os.path.realpath(order["folder"])
        self._wanted = re.compile(order["at"]) if order.get("at") else None
        self._signal, self._largest = order["signal"], order["largest"]
        self.finished = -1
        """The last finished step."""
        self._busy = False

    def at(self, what: str) -> None:
        name = f"{self.finished}: {what}"
        if self._wanted is not None and self._wanted.fullmatch(name):
            self._wanted = None
            report(moment=name)
            if self._signal:
                os.kill(os.getpid(), self._signal)
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, (self._largest, self._largest))

    def audit(self, event: str, given: tuple[Any, ...]) -> None:
        """Audit hook: called by the interpreter before it opens, renames or removes a file."""
        if event not in ("open", "os.rename", "shutil.rmtree", "os.remove") or self._busy:
            return
        path = given[1] if event == "os.rename" else given[0]
        reads = event == "open" and not (given[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if reads or not isinstance(path, str | os.PathLike):
            return
        name = os.fspath(path)
        if name.startswith(self._folder + os.sep):
            self._busy = True
            try:
                self.at(f"{event.rpartition('.')[2]} {name[len(self._folder) + 1 :]}")
            finally:
                self._busy = False


class Watching:
    """A TrainingView that reports phases and finished steps as moments."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def start(self, config: object, done: int, about: str) -> None:
        self._moments.at("start")

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        self._moments.at(f"phase {name} {done}")

    def step(self, record: Any) -> None:
        self._moments.finished = record.step

    def notify(self, line: str) -> None:
        self._moments.at(f"say {line}")

    def close(self) -> None: ...


def report(**facts: Any) -> None:
    os.write(PIPE, (json.dumps(facts) + "\n").encode())


def run(order: dict[str, Any]) -> int:
    """Train in the forked child; returns the exit code."""
    from scripted_table import quick

    from arena.core.errors import ArenaError
    from replays.html_report import write_html
    from trainers.config.config import TrainConfig
    from trainers.loop import checkpoints, grpo, training
    from trainers.pretrain import pretrain

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # So that writing too much is an OSError.
    moments = Moments(order)
    sys.addaudithook(moments.audit)
    view = Watching(moments)
    training.KEPT_POOL, checkpoints.REPLAYED_SHARE, pretrain.DECISIONS = 1, 0.3, 1000
    config, folder = TrainConfig(**order["config"]), Path(order["folder"])
    if order.get("batches"):
        from trainers.atropos.options import BatchOptions
        from trainers.atropos.trainer import train_from_batches

        options = BatchOptions(**order["batches"])
        run = train_from_batches(config, options, folder=folder, view=view, settings=quick())
    else:
        run = grpo.train(config, folder=folder, view=view, settings=quick(), report=write_html)
    try:
        asyncio.run(run)
    except KeyboardInterrupt:
        return 130
    except (ArenaError, OSError) as error:
        report(error=str(error), kind=type(error).__name__)
        return 1
    return 0


def main() -> None:
    import importlib

    for name in (
        "trainers.loop.grpo",
        "trainers.hosts.embedded",
        "trainers.hosts.embedded_trainer",
        "trainers.atropos.trainer",
        "backends.openai_http",
        "replays.html_report.page",
        *RARE,
    ):
        importlib.import_module(name)
    gc.freeze()  # Children neither search nor copy the memory of the imported modules.
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                order = json.loads(line)
                code = run(order)
            finally:
                if code == 70:
                    import traceback

                    traceback.print_exc()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        report(ended=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    PIPE = os.dup(1)
    os.dup2(2, 1)  # Output of libraries is not a message.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
    os._exit(0)  # The exit handlers of the libraries take seconds.
