"""A model server in a process of its own, which ends with this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from arena.core.errors import StopPlaying, UsageError

GUARD = Path(__file__).with_name("process_guard.py")
HOST = "127.0.0.1"
START_SECONDS = 600.0
"""Time to answer GET /health: a large model is read from disk, and compiled for a GPU."""
STOP_SECONDS = 20.0
"""Time between SIGTERM and SIGKILL."""
PORT_SECONDS = 5.0
"""Time in which the kernel closes the sockets of killed processes."""
POLL_SECONDS = 0.1
LOG_LINES = 5
"""Lines at the end of the server's log that an error quotes."""


class ServerProcess:
    """Starts, restarts and stops one server; no process of anyone else is touched.

    The calls block for seconds. They may come from different threads, one at a time.
    """

    def __init__(self, name: str, port: int, log: Path) -> None:
        """Choose the address; nothing is started. Raises UsageError if the port is in use.

        `name` is that of the program in errors. The port 0 takes a free one, which stays the same
        for all restarts. Each start continues the log.
        """
        self.name = name
        self.port = free_port(port)
        self._log = log
        self._log_start = 0
        """Size of the log when the server was started last."""
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Return the base URL, without a path."""
        return f"http://{HOST}:{self.port}"

    def is_running(self) -> bool:
        """Return whether the server was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def restart(self, command: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        """Stop the running server, if any, start this command, and wait until it answers.

        The command must listen at `url`; the variables are added to its environment.

        Raises:
            UsageError: another program uses the port.
            StopPlaying: the server ended, or does not answer in time.
        """
        with self._lock:
            self._stop()
            self._wait_for_port()
            self._log.parent.mkdir(parents=True, exist_ok=True)
            guard = [sys.executable, "-E", "-S", str(GUARD), f"{STOP_SECONDS}"]
            with self._log.open("ab") as log:
                self._log_start = log.tell()
                # A session of its own: Ctrl-C in the terminal reaches the run, which stops the
                # server after its last request.
                self._process = subprocess.Popen(
                    [*guard, *command],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=os.environ | dict(variables or {}),
                    start_new_session=True,
                )
            try:
                self._wait_for_health()
            except BaseException:
                self._stop()
                raise

    def stop(self) -> None:
        """Stop the server and all its processes; without a running one do nothing."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()  # The signal for the guard.
        try:
            process.wait(STOP_SECONDS + 5)
        except subprocess.TimeoutExpired:
            # The guard has not been reaped, so the number is still that of its group.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _wait_for_port(self) -> None:
        """Wait until the killed processes of an earlier start have closed their sockets."""
        Retrying(
            retry=retry_if_exception_type(UsageError),
            stop=stop_after_delay(PORT_SECONDS),
            wait=wait_fixed(POLL_SECONDS),
            reraise=True,
        )(free_port, self.port)

    def _wait_for_health(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        with httpx.Client(trust_env=False, timeout=5.0) as client:
            while time.monotonic() < deadline:
                if not self.is_running():
                    raise StopPlaying(f"{self.name} did not start: {self.log_end()}")
                try:
                    if client.get(f"{self.url}/health").status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                time.sleep(POLL_SECONDS)
        raise StopPlaying(
            f"{self.name} does not answer at {self.url} after {START_SECONDS:g} s: {self.log_end()}"
        )

    def log_end(self) -> str:
        """Return the last lines since the last start, and the path of the log, in one line."""
        try:
            with self._log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, log.tell() - 4096))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError as error:
            return f"{self._log}: {error.strerror}"
        text = [line.strip() for line in lines if line.strip()][-LOG_LINES:]
        return f"{' | '.join(text) or 'it wrote nothing'} (all of it: {self._log})"


def free_port(port: int) -> int:
    """Return the port, or a free one for 0. Raises UsageError if another program uses it."""
    with socket.socket() as probe:
        # As servers do: connections that a stopped server has closed do not block its port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UsageError(
                f"vllm_port={port}: another program uses this port ({error.strerror}); stop it, "
                "choose another port, or omit the setting for a free one"
            ) from None
        return int(probe.getsockname()[1])
