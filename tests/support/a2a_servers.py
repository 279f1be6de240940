"""Players and the judge as processes, for tests of A2A."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLAYER = Path(__file__).with_name("a2a_player.py")


class Servers:
    """Processes that are killed in the end."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def player(self, *arguments: object) -> str:
        """Start a server of the SDK (see a2a_player.py) and return its URL."""
        return self.start([sys.executable, PLAYER, *arguments]).strip()

    def start(self, words: list[object], cwd: Path | None = None) -> str:
        """Start a process and return the first line that it prints."""
        pipe = subprocess.PIPE
        process = subprocess.Popen([*map(str, words)], cwd=cwd, stdout=pipe, text=True)
        self.started.append(process)
        assert process.stdout is not None
        return process.stdout.readline()


@contextmanager
def servers() -> Iterator[Servers]:
    """Yield an object that starts servers."""
    made = Servers()
    try:
        yield made
    finally:
        for process in made.started:
            process.kill()
            process.communicate()
