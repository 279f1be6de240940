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


def end_with_parent() -> None:
    """Let Linux send SIGTERM to this process when its parent ends, were it by `kill -9`."""
    if sys.platform == "linux":
        import ctypes

        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def main(arguments: list[str]) -> None:
    """Run the command. Ends with SIGKILL for the whole group, this process included."""
    seconds, command = float(arguments[0]), arguments[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    # There are no threads yet, so `preexec_fn` is safe.
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=end_with_parent,  # noqa: PLW1509
    )

    def watch() -> None:
        os.read(0, 1)  # Returns at the end of the file: nothing is ever written.
        ended.set()

    def wait() -> None:
        child.wait()
        ended.set()

    for task in (watch, wait):
        threading.Thread(target=task, daemon=True).start()
    ended.wait()
    # To the command alone: it ends its own processes in their order, and frees what they share.
    child.terminate()
    try:
        child.wait(seconds)
    finally:
        # Whatever is left of the group, for example vLLM's engine after a crash of vLLM.
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
