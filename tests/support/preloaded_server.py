"""A process that imports what the tests need once, then forks a child for each Python command.

It accepts connections on an inherited socket, given by number. A connection sends the standard
streams as descriptors and, as JSON, the words after `python`, folder and environment; it is
answered with the id of the child and later with its exit status. A connection that ends early kills
its child.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import re
import runpy
import select
import signal
import socket
import sys
import threading
import types
from pathlib import Path
from typing import Any, NoReturn

LIGHT = (
    "arena.cli",
    "arena.cli.evaluate",
    "arena.cli.play",
    "arena.cli.tournament",
    "arena.evaluation.aggregation",
    "arena.evaluation.analysis",
    "arena.evaluation.schedule",
    "arena.evaluation.report",
    "arena.llm.service",
    "backends.openai_http",
    "games.cluedo.analysis.assessor",
    "games.cluedo.bots",
    "games.cluedo.text",
    "openai",
    "replays.analysis.replay_analysis",
    "replays.web.app",
    "scipy.optimize",
)
"""Imported at once."""

HEAVY = (
    "backends.embedded.sampler",
    "backends.server.app",
    "torch._dynamo",  # An optimizer imports it in its first step, for a second and a half.
    "trainers.hosts.embedded",
)
"""Imported for the first command with a model in the process. No module that imports polars, whose
threads a fork loses."""

FOR_WORKERS = (
    *("arena.agents.human", "gymnasium", "hypothesis", "pettingzoo", "scipy.stats", "tiny_model"),
    "transformers.models.qwen3.modeling_qwen3",
)
"""Imported for the workers of pytest-xdist, which collect all tests."""

WORKER = "exec(eval(sys.stdin.readline()))"
"""Start of a worker."""

NEEDS_HEAVY = re.compile(r'"(pretrain|serve|train)"|train_zygote|embedded:|' + re.escape(WORKER))
NEEDS_LITELLM = re.compile(r"\b(anthropic|cohere|openai|openrouter):|" + re.escape(WORKER))
"""Specs of hosted models. The environment that litellm reads when it is imported is that of the
server; addresses and keys, which the tests set, are read at each call."""


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    load(LIGHT)
    while True:
        # Standard input ends when the tests end.
        ready, _, _ = select.select([listener.fileno(), 0], [], [])
        if listener.fileno() not in ready:
            while reap():
                pass
            os._exit(0)
        connection, _ = listener.accept()
        head, streams, _, _ = socket.recv_fds(connection, 8, 3)
        order = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL).decode()
        if NEEDS_HEAVY.search(order):
            load(HEAVY)
        if NEEDS_LITELLM.search(order):
            load_litellm()
        if WORKER in order:
            load(FOR_WORKERS)
        if os.fork() == 0:
            listener.close()
            supervise(connection, json.loads(order), streams)
        connection.close()
        for stream in streams:
            os.close(stream)
        while reap():
            pass


def load(modules: tuple[str, ...]) -> None:
    for name in modules:
        # An environment without an extra lacks some of them; a command that needs one says so.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert threading.active_count() == 1, "a fork copies no threads"
    gc.freeze()  # Children neither search nor copy the memory of the imported modules.


def load_litellm() -> None:
    if "litellm" not in sys.modules:
        from backends.litellm_client import load_litellm

        load_litellm()
        load(())


def reap() -> bool:
    """Collect one child that has ended, if there is one."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


def supervise(connection: socket.socket, order: dict[str, Any], streams: list[int]) -> NoReturn:
    """Fork the child of a connection, and report how it ends."""
    child = os.fork()
    if child == 0:
        connection.close()
        run(order, streams)
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(BrokenPipeError):  # The client was killed before; see below.
        connection.sendall(child.to_bytes(8, "big", signed=True))
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([connection.fileno(), ended], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended in ready:
        connection.sendall(code.to_bytes(8, "big", signed=True))
    os._exit(0)


def run(order: dict[str, Any], streams: list[int]) -> NoReturn:
    """Become `python` with the given arguments: `-m MODULE`, `-c CODE` or a file, and more."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    first, *words = (word for word in order["arguments"] if word != "-u")
    path = os.environ.get("PYTHONPATH", "")
    home = str(Path(first).parent) if first.endswith(".py") else order["folder"]
    sys.path[0:1] = [home, *filter(None, path.split(os.pathsep))]
    # The streams of the server keep buffers and modes of their own: made anew for these files.
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        if first == "-m":
            sys.argv = words
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv = ["-c", *words[1:]]
            sys.modules["__main__"] = main_module = types.ModuleType("__main__")
            exec(words[0], vars(main_module))
        else:
            sys.argv = [first, *words]
            runpy.run_path(first, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        leave(code)


def leave(code: int) -> NoReturn:
    """End as an interpreter does, without taking the imported modules apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 120
    os._exit(code)


if __name__ == "__main__":
    main()
