"""Many games at once and the limit of open files."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from cluedo_server import legal_answer
from misbehaving import Misbehaving
from preloaded import python_command

pytest.importorskip("resource", reason="this system has no limit of open files")


AGENT = Path(__file__).parents[2] / "docs" / "examples" / "agent.py"


def run(words: Sequence[str], soft: int, hard: int, folder: Path) -> CompletedProcess[str]:
    """Run `arena` in a process with these limits of open files."""
    code = (
        "import resource, sys; from arena.cli import run; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); sys.exit(run(sys.argv[1:]))"
    )
    command = [*python_command(), "-c", code, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_soft_limit_is_raised_for_many_games(tmp_path: Path) -> None:
    with Misbehaving(legal_answer, latency=0.2) as server:
        flags = (
            f"play cluedo --seat 0={server.openai_url}#tiny --games 150 --max-concurrent 150 "
            "--max-turns 1 --json --out out"
        )
        done = run(flags.split(), 128, 1024, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stderr, "no open file was booked as a fault of a player"
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == 150


@pytest.mark.parametrize(
    "command",
    [
        "play cluedo --games 100 --max-concurrent 100 --seat 0={url} --max-turns 1",
        "eval cluedo --players 3 --games 24 --max-concurrent 24 --player {url} --max-turns 1",
        # Each program has three streams.
        "play kuhn_poker --games 20 --seat '0=agent:{program}'",
        "eval kuhn_poker --player 'agent:{program}' --games 8 --executor processes --workers 40",
    ],
)
def test_games_that_do_not_fit_are_played_by_and_by(command: str, tmp_path: Path) -> None:
    """In the least environment: 64 open files for everything."""
    with Misbehaving(legal_answer) as server:
        url, program = f"{server.openai_url}#tiny", f"{sys.executable} {AGENT}"
        words = shlex.split(command.format(url=url, program=program))
        done = run([*words, "--json", "--out", "out"], 64, 64, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "this process may open 64 files (ulimit -Hn)" in done.stderr.splitlines()[0]
    assert "failed" not in done.stderr, "no open file was booked as a fault of a player"
