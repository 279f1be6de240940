"""Runs a command, and ends it with all its processes when the starter closes standard input.

The starter's end of the pipe closes with the starter, also after `kill -9`: so a server never
outlives its run. The starter makes this process the leader of a new process group (a new session),
to which all processes of the command belong. Standard library only; it is run as a file:

    python process_guard.py SECONDS COMMAND...

SECONDS is the time between SIGTERM and SIGKILL.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(arguments: list[str]) -> None:
    """Run the command. Ends with SIGKILL for the whole group, this process included."""
    seconds, command = float(arguments[0]), arguments[1:]
    ended = threading.Event()
    # The group includes this process, which must outlive the SIGTERM that it sends. A handler and
    # not SIG_IGN, which the command would inherit.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def watch() -> None:
        os.read(0, 1)  # Returns at the end of the file: nothing is ever written.
        ended.set()

    def wait() -> None:
        child.wait()
        ended.set()

    for task in (watch, wait):
        threading.Thread(target=task, daemon=True).start()
    ended.wait()
    os.killpg(0, signal.SIGTERM)
    try:
        child.wait(seconds)
    finally:
        # Processes that the command has left behind, for example vLLM's engine.
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
