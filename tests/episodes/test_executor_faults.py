"""`arena eval` whose workers, or which itself, are killed again and again: no game is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from command_line import ENVIRONMENT

from arena.evaluation.store import Results
from arena.testing.conformance import without_times

GAMES = (
    "eval cluedo --players 3 --player bot:detective --baseline bot:novice --seed 5 --set scored=2 "
    "--out run --json"
)
KILLS = int(os.environ.get("ARENA_KILLS", "1"))
"""Kills per test; `make test-ray` makes it 50."""
PATIENCE = 1200.0
GAMES_IN_HAND = 4
"""Games that two workers have in hand."""
EXECUTORS = [
    "processes",
    pytest.param(
        "ray",
        marks=[
            pytest.mark.ray,
            pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
        ],
    ),
]


def started(command: str, cwd: Path) -> subprocess.Popen[str]:
    """Start `arena` as a child of this process, which a preloaded one would not be."""
    return subprocess.Popen(
        [sys.executable, "-m", "arena", *command.split()],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def workers_of(driver: psutil.Process, executor: str) -> list[psutil.Process]:
    """Return the processes that play games for this driver."""
    mark = "spawn_main" if executor == "processes" else "ray::answer_on_node"
    found = []
    for process in driver.children(recursive=True):
        try:
            if mark in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:  # It has ended meanwhile.
            continue
    return found


@dataclass(frozen=True)
class Finished:
    """What a run leaves: its report, and the stored games by number, each with its replay."""

    report: dict[str, object]
    games: dict[int, object]


def finished_run(run: subprocess.Popen[str], folder: Path) -> Finished:
    """Wait for the end of a run. No number of a game is twice."""
    output, error = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, error
    # Ray prints the deaths of workers before it.
    folder, report = folder / "run", json.loads(output.splitlines()[-1])
    assert report.pop("results") == "run"
    with Results.read(folder) as results:
        games = list(results.games())
    assert len({game.slot.number for game in games}) == len(games)
    replays = sorted((folder / "replays").iterdir())
    assert [path.name for path in replays] == [f"game{n:06}.jsonl" for n in range(len(games))]
    found = {
        game.slot.number: (game.slot, game.seats, without_times(folder / str(game.replay)))
        for game in games
    }
    return Finished(report, dict(found))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run in one process that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run = started(f"{GAMES} --games {games_for(KILLS)} --executor local", folder)
    return finished_run(run, folder)


def games_for(kills: int) -> int:
    """Return a number of games that takes longer than so many kills."""
    return 40 + 6 * kills


def finished_in(folder: Path) -> int:
    """Return the number of finished games, while the run goes on."""
    return len(list((folder / "replays").glob("game*.jsonl")))


def wait_for(number: int, count: Callable[[], int], run: subprocess.Popen[str]) -> bool:
    """Wait until a count is reached; return False if the run ended before."""
    deadline = time.monotonic() + PATIENCE
    while run.poll() is None:
        if count() >= number:
            return True
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("executor", EXECUTORS)
def test_no_game_is_lost_with_a_worker(
    executor: str, undisturbed: Finished, tmp_path: Path
) -> None:
    """Kills come at random moments of a game, one or two in a row.

    Between them, both workers have started and have finished games: otherwise the kills could come
    faster than a worker starts, and a game that lost five of them ends the run.
    """
    rng = random.Random(7)
    command = f"{GAMES} --games {games_for(KILLS)} --executor {executor} --workers 2"
    run = started(command, tmp_path)
    driver, kills = psutil.Process(run.pid), 0
    finished = partial(finished_in, tmp_path / "run")
    while kills < KILLS:
        if not wait_for(2, lambda: len(workers_of(driver, executor)), run):
            break
        waiting = time.monotonic()
        if not wait_for(finished() + GAMES_IN_HAND, finished, run):
            break
        game_seconds = (time.monotonic() - waiting) / GAMES_IN_HAND
        for _ in range(min(rng.choice((1, 2)), KILLS - kills)):
            time.sleep(rng.uniform(0, 2 * game_seconds))
            if workers := workers_of(driver, executor):
                rng.choice(workers).send_signal(signal.SIGKILL)
                kills += 1
    assert finished_run(run, tmp_path) == undisturbed
    assert kills == KILLS, "the run ended before the last kill"


@pytest.mark.ray  # the tests of executors and of the commands have shorter ones.
@pytest.mark.parametrize("executor", EXECUTORS)
def test_no_game_is_lost_with_the_driver(
    executor: str, undisturbed: Finished, tmp_path: Path
) -> None:
    rng = random.Random(8)
    command = f"{GAMES} --games {games_for(KILLS)} --executor {executor} --workers 2"
    kills = max(2, KILLS // 10)
    # The kills end before the run does, however fast it is.
    most = games_for(KILLS) // (2 * kills)
    finished = partial(finished_in, tmp_path / "run")
    for number in range(kills):
        run = started(command + with_resume(tmp_path), tmp_path)
        # Every other kill may come before the first game; the next one after some of this start.
        if number % 2:
            wanted = finished() + rng.randint(1, most)
            assert wait_for(wanted, finished, run), run.communicate()
        else:
            time.sleep(rng.uniform(0, 1.5))
        run.kill()
        run.communicate(timeout=60)
    run = started(command + with_resume(tmp_path), tmp_path)
    assert finished_run(run, tmp_path) == undisturbed


def with_resume(folder: Path) -> str:
    """Return the flag that continues a run, if it was killed after it had made its file."""
    return " --resume" if (folder / "run" / "run.json").exists() else ""
