"""Playing a schedule: in order, on any number of workers, through kills and Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def test_workers_end_when_their_parent_is_killed() -> None:
    program = (
        "import asyncio, os, time\n"
        "from arena.episodes.executors import make_executor\n"
        "async def go():\n"
        "    async with make_executor('processes', 2) as executor:\n"
        "        print(await executor.compute(os.getpid), flush=True)\n"
        "        time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(go())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _is_running(worker):
        time.sleep(0.05)
    assert not _is_running(worker)


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
