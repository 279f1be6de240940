"""Starts `arena` as a process of its own without its seconds of imports.

A server process imports the packages once (`preloaded_server`) and forks a child for each command;
a small client (`preloaded_client`) stands in for the child. Tests of start-up, of the installation
and of terminals start a plain `python -m arena` instead.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def arena_command() -> list[str]:
    """Return the words that stand for `python -m arena`; the first call starts the server."""
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
    atexit.register(_end, server, folder)
    return [sys.executable, "-I", "-S", str(HERE / "preloaded_client.py"), path]


def _end(server: subprocess.Popen[bytes], folder: str) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
    shutil.rmtree(folder)
