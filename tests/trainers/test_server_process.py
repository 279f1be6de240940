"""A model server that the run starts: `process_guard.py` with real processes and signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from arena.core.errors import StopPlaying, UsageError
from trainers.weight_sync import server_process
from trainers.weight_sync.server_process import ServerProcess

SERVER = """
import http.server, os, signal, subprocess, sys
port, folder, stubborn = int(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["stubborn"]
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
worker = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
open(folder + "/pids", "w").write(f"{os.getpid()} {worker.pid}")
print("it serves now", flush=True)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""


def command(server: ServerProcess, folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-S", "-c", SERVER, str(server.port), str(folder), *more]


def pids(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_ended(*processes: int) -> None:
    deadline = time.monotonic() + 60
    while any(runs(pid) for pid in processes):
        assert time.monotonic() < deadline, f"{processes} still run"
        time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    monkeypatch.setattr(server_process, "STOP_SECONDS", 1)
    process = ServerProcess("it", 0, tmp_path / "server.log")
    yield process
    process.stop()


def test_a_restart_ends_the_old_process_and_its_workers(
    server: ServerProcess, tmp_path: Path
) -> None:
    server.restart(command(server, tmp_path))
    first = pids(tmp_path)
    assert server.is_running() and all(map(runs, first))
    server.restart(command(server, tmp_path, "stubborn"))
    wait_until_ended(*first)
    second = pids(tmp_path)
    assert set(first).isdisjoint(second) and all(map(runs, second))
    server.stop()  # SIGTERM is ignored: SIGKILL follows.
    wait_until_ended(*second)
    assert not server.is_running()


def test_the_server_ends_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    starter = (
        "import sys, time\nfrom pathlib import Path\n"
        "from trainers.weight_sync.server_process import ServerProcess\n"
        f"server = ServerProcess('it', 0, Path({str(tmp_path)!r}, 'log'))\n"
        f"server.restart([sys.executable, '-S', '-c', {SERVER!r}, str(server.port), "
        f"{str(tmp_path)!r}])\nprint('up', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    served = pids(tmp_path)
    assert all(map(runs, served))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    wait_until_ended(*served)


def test_a_server_that_ends_is_noticed_and_takes_its_workers_along(
    server: ServerProcess, tmp_path: Path
) -> None:
    server.restart(command(server, tmp_path))
    main, worker = pids(tmp_path)
    os.kill(main, signal.SIGKILL)
    wait_until_ended(main, worker)
    while server.is_running():
        time.sleep(0.01)
    server.restart(command(server, tmp_path))
    assert server.is_running()


def test_a_server_that_does_not_start_shows_the_end_of_its_log(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "import sys; sys.exit('no model in this folder')"
    with pytest.raises(StopPlaying, match=r"it did not start: no model in this folder \(.*\.log"):
        server.restart([sys.executable, "-S", "-c", broken])
    monkeypatch.setattr(server_process, "START_SECONDS", 0.3)
    quiet = ServerProcess("it", 0, tmp_path / "quiet.log")
    silent = "import time; print('loading', flush=True); time.sleep(60)"
    # On a busy machine it is stopped before it writes its line.
    written = r"(loading|it wrote nothing) \(all of it: .*quiet\.log"
    with pytest.raises(StopPlaying, match=rf"does not answer at .* after 0.3 s: {written}"):
        quiet.restart([sys.executable, "-S", "-c", silent])
    assert not quiet.is_running()


def test_a_port_of_another_program_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"vllm_port={port}: another program uses this port"):
            ServerProcess("it", port, tmp_path / "log")
    with suppress(UsageError):
        assert ServerProcess("it", port, tmp_path / "log").port == port
