"""Play, evaluate and train while processes are killed: `make soak MINUTES=10`.

Rounds of play, of evaluation and of training run beside each other. Each round has its own seed and
runs twice: undisturbed, and with SIGKILL at random moments, for the command or for one of its
workers, and the same command again until it ends by itself. Both must leave the same games, results
and weights. Meanwhile `arena web` shows the folder to clients that ask for its pages all the time.
Memory and open files of all processes are recorded. No round starts after the given time, so the
whole ends by itself. The result is `results/soak.json`; the exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from urllib.parse import quote

import psutil

# Also when a test loads this file by its path.
sys.path.append(str(Path(__file__).parent))
import results

ARENA = [sys.executable, "-m", "arena"]
TIMES = re.compile(r'"(created|seconds)":("[^"]*"|[\d.e+-]+)')
"""What differs between two runs of the same games."""
FIRST_KILL, LAST_KILL = 2.0, 30.0
"""Seconds of a command's life after which it, or one of its workers, is killed."""
MOST_KILLS = 6
"""In a round; then it runs to its end."""
MEGABYTE = 2**20
GROWTH = 1.2
"""A server that keeps what it served has more than so many times its early memory at the end."""


@dataclass
class Job:
    """A kind of work, and what its rounds have shown."""

    name: str
    command: Callable[[int, Path], list[str]]
    """Words after `arena`, from the seed and the folder of its output."""
    content: Callable[[Path], dict[str, str]]
    """What the output holds, by name: equal work has equal content."""
    resume: tuple[str, ...] = ()
    """Further words of the second command and those after it."""
    rounds: int = 0
    kills: int = 0
    items: int = 0
    """Games, results and checkpoints that were compared."""
    faults: list[str] = field(default_factory=list)
    peak: float = 0.0
    """Most memory of a command with its workers, in MiB."""
    files: int = 0
    """Most open files of a command with its workers."""


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def replays(folder: Path) -> dict[str, str]:
    """Return the games of a folder, without the times at which they were played."""
    return {
        path.name: _hash(TIMES.sub("", path.read_text(encoding="utf-8")).encode())
        for path in sorted(folder.rglob("*.jsonl*"))
    }


def evaluation(folder: Path) -> dict[str, str]:
    """Return the games of an evaluation, and the rows of its database."""
    database = sqlite3.connect(f"file:{folder / 'results.sqlite'}?mode=ro", uri=True)
    games = database.execute("SELECT number, status, reason, turns, decisions FROM games")
    rows = {f"game {row[0]}": str(row) for row in games}
    seats = database.execute("SELECT number, seat, returns, won, fallbacks FROM seats")
    rows |= {f"seat {row[:2]}": str(row) for row in seats}
    database.close()
    return rows | replays(folder / "replays")


def training(folder: Path) -> dict[str, str]:
    """Return the weights of the kept checkpoints, and each step with the number of its lines."""
    run = next(path for path in folder.iterdir() if path.is_dir())
    weights = {
        str(path.relative_to(run)): _hash(path.read_bytes())
        for path in sorted(run.glob("checkpoints/*/*.safetensors"))
    }
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = Counter(json.loads(line)["step"] for line in lines)
    return weights | {f"step {step}": str(count) for step, count in steps.items()}


def jobs(base: Path) -> list[Job]:
    """Return the three kinds of work; `base` is the model that is trained."""

    def play(seed: int, out: Path) -> list[str]:
        words = f"play cluedo --players 4 --games 120 --seed {seed} --no-watch --resume"
        return [*words.split(), "--executor", "processes", "--workers", "2", "--out", str(out)]

    def evaluate(seed: int, out: Path) -> list[str]:
        words = f"eval cluedo --player bot:oracle --baseline bot:detective --games 60 --seed {seed}"
        return [*words.split(), "--out", str(out)]

    def train(seed: int, out: Path) -> list[str]:
        words = f"train kuhn_poker --steps 12 --seed {seed} --groups-per-step 4 --eval-games 20"
        keys = "--guided --rollouts-per-group 4 --final-eval-games 20 --set threads=1"
        return [*words.split(), *keys.split(), "--base-model", str(base), "--log-dir", str(out)]

    return [
        Job("play", play, replays),
        Job("eval", evaluate, evaluation, resume=("--resume",)),
        Job("train", train, training),
    ]


class Soak:
    """One run of everything, in one folder."""

    def __init__(self, folder: Path, minutes: float) -> None:
        self.folder = folder
        self.end = time.monotonic() + 60 * minutes
        self.web: list[tuple[float, int]] = []
        """Memory in MiB and open files of the server, every two seconds."""
        self.requests: Counter[int] = Counter()
        """Answers of the server by HTTP status; 0 if there was none."""
        self.refused: Counter[str] = Counter()
        """What it said where it had no page."""
        self.over = threading.Event()

    def rounds(self, job: Job, seed: int) -> None:
        """Run rounds of one kind of work until the time is over."""
        rng = random.Random(seed)
        while time.monotonic() < self.end:
            number = seed + job.rounds
            plain, disturbed = (
                self.folder / f"{job.name}-{number}-{kind}" for kind in ("plain", "killed")
            )
            try:
                self._run(job, number, plain, None)
                self._run(job, number, disturbed, rng)
                job.faults += differences(job.content(plain), job.content(disturbed))
                job.items += len(job.content(plain))
            except Exception as error:  # A thread that ends without a word would look like success.
                job.faults.append(f"{job.name}, seed {number}: {error!r}")
            job.rounds += 1
            shutil.rmtree(plain, ignore_errors=True)

    def _run(self, job: Job, number: int, out: Path, kills: random.Random | None) -> None:
        """Run one command to its end, again after each kill. Raises RuntimeError if it fails."""
        words, left = job.command(number, out), MOST_KILLS if kills else 0
        log = out.with_suffix(".log")
        again: tuple[str, ...] = ()
        while True:
            with log.open("a") as file:
                process = subprocess.Popen(
                    [*ARENA, *words, *again], stdout=file, stderr=file, start_new_session=True
                )
            deadline = kills.uniform(FIRST_KILL, LAST_KILL) if kills and left else float("inf")
            if self._wait(job, process, deadline, kills):
                left, again = left - 1, job.resume if out.exists() else ()
                job.kills += 1
            elif process.returncode:
                raise RuntimeError(f"exit code {process.returncode}: {log.read_text()[-300:]}")
            else:
                return

    def _wait(
        self, job: Job, process: subprocess.Popen[bytes], seconds: float, rng: random.Random | None
    ) -> bool:
        """Wait for the end of a command; return whether it was killed before."""
        start, whole = time.monotonic(), psutil.Process(process.pid)
        worker_killed = False
        while process.poll() is None:
            memory, files, children = usage(whole)
            job.peak, job.files = max(job.peak, memory), max(job.files, files)
            if rng and time.monotonic() - start > seconds:
                if children and not worker_killed and rng.random() < 0.5:
                    kill(rng.choice(children).pid)  # The command has to go on without it.
                    worker_killed, seconds = True, seconds + rng.uniform(FIRST_KILL, LAST_KILL)
                    job.kills += 1
                    continue
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
            time.sleep(0.2)
        return False

    def serve(self) -> None:
        """Show the folder with `arena web`, ask for its pages and record the server."""
        words = [*ARENA, "web", str(self.folder), "--port", "0"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        found = re.search(r"http://[\d.:]+", server.stdout.readline())
        assert found, "arena web printed no address"
        clients = [threading.Thread(target=self._ask, args=(found[0],)) for _ in range(4)]
        for client in clients:
            client.start()
        process = psutil.Process(server.pid)
        while not self.over.wait(2):
            if server.poll() is not None:
                break
            self.web.append(usage(process)[:2])
        for client in clients:
            client.join()
        server.send_signal(signal.SIGINT)
        server.wait(60)

    def _ask(self, url: str) -> None:
        """Ask for the pages as an open browser does, until the end."""
        while not self.over.wait(0.5):
            listed = self._get(f"{url}/api/home")
            entries = json.loads(listed)["entries"] if listed else []
            self._get(f"{url}/")
            self._get(f"{url}/api/games?start=0&count=50")
            for entry in entries[:6]:
                kind = "run" if entry["kind"] == "train" else "experiment"
                self._get(f"{url}/api/{kind}?path={quote(entry['path'])}")

    def _get(self, address: str) -> bytes:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                content: bytes = answer.read()
                self.requests[answer.status] += 1
                return content
        except urllib.error.HTTPError as error:
            reason = error.read()[:200].decode(errors="replace")
            # Expected: the files of a round were removed meanwhile, or it has just begun.
            expected = error.code == 404 or "no game is finished yet" in reason
            self.requests[200 if expected else error.code] += 1
            self.refused[f"{error.code} {reason}"] += 1
        except OSError:
            self.requests[0] += 1
        return b""


def usage(process: psutil.Process) -> tuple[float, int, list[psutil.Process]]:
    """Return memory in MiB and open files of a process with its children, and the children."""
    memory, files, children = 0.0, 0, []
    try:
        children = process.children(recursive=True)
        for each in (process, *children):
            memory += each.memory_info().rss / MEGABYTE
            files += each.num_fds()
    except psutil.Error:
        pass  # It has ended.
    return memory, files, children


def kill(pid: int) -> None:
    """Kill a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def differences(plain: dict[str, str], disturbed: dict[str, str]) -> Iterator[str]:
    """Yield what was lost, what is too much, and what differs."""
    for name in sorted(plain.keys() | disturbed.keys()):
        if plain.get(name) != disturbed.get(name):
            states = {(True, False): "is lost", (False, True): "is too much"}
            yield f"{name} {states.get((name in plain, name in disturbed), 'differs')}"


def growth_faults(web: list[tuple[float, int]]) -> Iterator[str]:
    """Yield what a server has more of in the last quarter of its samples than in the second."""
    quarter = len(web) // 4
    if not quarter:
        yield "the server was not recorded"
        return
    early, late = web[quarter : 2 * quarter], web[-quarter:]
    if (now := median(m for m, _ in late)) > GROWTH * (then := median(m for m, _ in early)):
        yield f"the server has {now:.0f} MiB, {then:.0f} before"
    if (now := median(f for _, f in late)) > (then := median(f for _, f in early)) + 8:
        yield f"the server has {now:.0f} open files, {then:.0f} before"


def rows(soak: Soak, works: list[Job], minutes: float) -> list[list[str]]:
    """Return the table: a row for each kind of work, and one for the server."""
    cells = [
        [
            f"`arena {job.name}`",
            f"{job.rounds} rounds, {job.kills} kills",
            str(job.items),
            str(len(job.faults)),
            f"{job.peak:.0f} MiB",
            str(job.files),
        ]
        for job in works
    ]
    memory, files = [median(values) for values in zip(*soak.web[-20:], strict=True)]
    bad = sum(n for status, n in soak.requests.items() if status != 200)
    served = sum(soak.requests.values())
    shown = [f"{served} answers", str(bad), f"{memory:.0f} MiB at the end", f"{files:.0f}"]
    cells.append(["`arena web`", f"{minutes:.0f} minutes", *shown])
    return cells


HEADER = ("command", "disturbed by", "compared", "lost, doubled or different", "memory", "files")


def store(cells: list[list[str]], minutes: float, seed: int) -> None:
    """Write `results/soak.json`."""
    python = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    origin = {
        "command": f"make soak MINUTES={minutes:g} SEED={seed}",
        "commit": results.commit(results.ROOT),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": python,
    }
    document = {"header": HEADER, "rows": [{"cells": row, **origin} for row in cells]}
    path = results.ROOT / "results" / "soak.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    """Run the soak; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=results.ROOT / "build" / "soak")
    flags = parser.parse_args()
    shutil.rmtree(flags.out, ignore_errors=True)
    (shown := flags.out / "shown").mkdir(parents=True)
    make = [*ARENA, "pretrain", "kuhn_poker", "--games", "200", "--epochs", "1", "--out"]
    base = flags.out / "base"
    subprocess.run([*make, base], check=True, stdout=subprocess.DEVNULL)
    soak, works = Soak(shown, flags.minutes), jobs(base)
    server = threading.Thread(target=soak.serve)
    server.start()
    threads = [threading.Thread(target=soak.rounds, args=(job, 1000 * flags.seed)) for job in works]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    soak.over.set()
    server.join()
    cells = rows(soak, works, (time.monotonic() - start) / 60)
    faults = [fault for job in works for fault in job.faults] + list(growth_faults(soak.web))
    faults += [f"{job.name}: no kill" for job in works if not job.kills]
    faults += (
        []
        if cells[-1][3] == "0"
        else [f"answers of the server: {dict(soak.requests)}, {soak.refused}"]
    )
    store(cells, flags.minutes, flags.seed)
    print("\n".join(" | ".join(row) for row in (HEADER, *cells)))
    for fault in faults:
        print(f"FAILED {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
