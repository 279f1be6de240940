"""Many games at once and the limit of open files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cluedo_server import legal_answer
from misbehaving import Misbehaving

pytest.importorskip("resource", reason="this system has no limit of open files")


def play(flags: str, soft: int, hard: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `arena play` in a process with these limits of open files."""
    code = (
        "import resource, sys; from arena.cli import run; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "play", "cluedo", *flags.split()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_soft_limit_is_raised_for_many_games(tmp_path: Path) -> None:
    with Misbehaving(legal_answer, latency=0.2) as server:
        flags = (
            f"--seat 0={server.openai_url}#tiny --games 150 --max-concurrent 150 --max-turns 1 "
            "--set probe=false --json --out out"
        )
        done = play(flags, 128, 1024, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stderr, "no open file was booked as a fault of a player"
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == 150


def test_games_that_do_not_fit_are_refused_at_once(tmp_path: Path) -> None:
    done = play("--games 500 --max-concurrent 500 --out out", 256, 512, tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "--max-concurrent 500" in line and "512 files" in line and "160 games" in line
    assert not (tmp_path / "out").exists()
