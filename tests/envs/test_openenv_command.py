"""OpenEnv: the command, and training by TRL, each in real processes."""

# ruff: noqa: E402 - the imports below need openenv.

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("openenv.core", reason="needs openenv: make test-openenv")
pytestmark = [
    pytest.mark.openenv,
    # Its own deprecations are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]

from arena.cli import run
from arena.envs.openenv import GameClient, call

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from arena.cli import main; main()", "openenv"]


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """Run `arena openenv serve`; yield its URL."""
    command = [*COMMAND, "serve", *flags, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, line
            yield found[0]
        finally:
            process.terminate()
        assert process.wait(60) == 0


def test_the_command_serves_and_writes_replays(tmp_path: Path) -> None:
    with serving("kuhn_poker", "--out", str(tmp_path)) as url, GameClient(url).sync() as env:
        result = env.reset(seed=11)
        while not result.done:
            result = env.step(call("Pass"))
    names = [path.name for path in tmp_path.iterdir()]
    assert "kuhn_poker-2p-seed11.jsonl" in names
    assert run(["replay", "verify", str(tmp_path / "kuhn_poker-2p-seed11.jsonl")]) == 0


def test_a_public_address_needs_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARENA_API_KEY", raising=False)
    assert run(["openenv", "serve", "kuhn_poker", "--host", "0.0.0.0"]) == 2
    assert "a key is required" in capsys.readouterr().err
    assert run(["openenv", "serve", "kuhn_poker", "--turn-seconds", "9999", "--port", "0"]) == 2
    assert "less than the 1800" in capsys.readouterr().err
    assert run(["openenv", "serve", "kuhn_poker", "--opponents", "bot:x"]) == 2


def test_trl_trains_for_three_steps(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="needs trl==1.16.0: make test-openenv")
    flags = "cluedo --players 3 --opponents bot:random --text-level deductions --max-turns 6"
    reward = "--reward win=1,entropy_removed=0.5"
    script = ROOT / "docs" / "examples" / "trl_openenv.py"
    with serving(*flags.split(), *reward.split()) as url:
        done = subprocess.run(
            [sys.executable, str(script), "--url", url, "--group", "2", "--calls", "8"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert len(steps) == 3
    for line in steps:
        found = re.search(r"reward (\S+), (\S+) calls per rollout, (\S+) of them failed", line)
        assert found and float(found[2]) > 0 and float(found[3]) == 0, line
    assert any(float(line.split()[3].rstrip(",")) > 0 for line in steps), steps
