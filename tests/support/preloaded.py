"""Starts Python as a process of its own without its seconds of imports.

A server process imports the packages once (`preloaded_server`) and forks a child for each command;
a small client (`preloaded_client`) stands in for the child. The processes of a run of tests share
one server, and the workers of pytest-xdist are children of it themselves. Tests of start-up and
of the installation start a plain `python -m arena` instead.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SOCKET = "PRELOADED_SOCKET"
"""Name of the environment variable with the path of the server's socket."""


def python_command() -> list[str]:
    """Return the words that stand for `python`; the first call in a run starts the server."""
    if SOCKET not in os.environ:
        _start()
    client = str(HERE / "preloaded_client.py")
    return [sys.executable, "-I", "-S", client, os.environ[SOCKET]]


def arena_command() -> list[str]:
    """Return the words that stand for `python -m arena`."""
    return [*python_command(), "-m", "arena"]


def _start() -> None:
    folder = tempfile.mkdtemp(prefix="arena-tests-")
    path = f"{folder}/socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    number = listener.fileno()
    server = subprocess.Popen(
        [sys.executable, str(HERE / "preloaded_server.py"), str(number)],
        stdin=subprocess.PIPE,
        pass_fds=[number],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )
    listener.close()
    os.environ[SOCKET] = path
    atexit.register(_end, server, folder)


def _end(server: subprocess.Popen[bytes], folder: str) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
    shutil.rmtree(folder)
    del os.environ[SOCKET]
