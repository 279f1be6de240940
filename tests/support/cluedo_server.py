"""A loopback server whose answers are legal in Cluedo's card game, and the command line against it.

`python tests/support/cluedo_server.py PORT [ANSWERS [LATENCY]]` runs it as a process of its own. It
can be killed, or dies by itself at the request after so many answers (0: never).
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import command_line
from misbehaving import Misbehaving
from preloaded import arena_command

TESTS = Path(__file__).parents[1]
GAME = "play cluedo -o variant=cards --players 3 --no-watch --seed 1"
"""The words of a command, without the player."""


def legal_answer(body: Any) -> str:
    """A legal answer to any question of the card game, from the JSON of the request."""
    question = body["messages"][-1]["content"]
    _, shows, cards = question.rpartition("Show one of your cards: ")
    if shows:
        return f"I show what I must. {cards.split(' | ')[0].rstrip('.')}"
    return "suggest Mrs White, Rope, Hall" if "suggest SUSPECT" in question else "end turn"


def environment(**more: str) -> dict[str, str]:
    """What a process of ours gets: nobody's keys, and what the test adds."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    fixed = {"PYTHONPATH": f"{TESTS.parent}", "COLUMNS": "200"}
    return {**kept, **command_line.ONE_WORKER, **fixed, **more}


def arena(command: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the words of `command` in a process."""
    return command_line.arena(command, cwd=cwd, environment=environment(**more))


def start(command: str, cwd: Path, **more: str) -> subprocess.Popen[str]:
    """The same without waiting; what it says goes into the file `stderr` in `cwd`."""
    with (cwd / "stderr").open("w") as stderr:
        return subprocess.Popen(
            [*arena_command(), *command.split()],
            cwd=cwd,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


def main() -> None:
    port, answers, latency = (*sys.argv[1:], *("0", "0", "0.02")[len(sys.argv) - 1 :])
    lifetime = iter(range(int(answers))) if int(answers) else itertools.count()

    def answer(body: Any) -> str:
        if next(lifetime, None) is None:
            os._exit(1)
        return legal_answer(body)

    with Misbehaving(answer, latency=float(latency), port=int(port)) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
