"""OpenEnv: packages, the commands, and training by TRL, each in real processes."""

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

from openenv_validator import validate_package

from arena.cli import run
from arena.envs.openenv.protocol import GameClient, call

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from arena.cli import main; main()", "openenv"]
RAN = [
    *("static.manifest", "runtime.startup", "runtime.observation_schema"),
    *("runtime.reward_well_formed", "runtime.state_contract"),
]
"""Checks of OpenEnv 0.10.0 that run without a container; it has no others yet but the network's."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages") / "cluedo"
    flags = ["--players", "3", "--opponents", "bot:novice", "--name", "my_cluedo"]
    assert run(["openenv", "package", "cluedo", str(folder), *flags]) == 0
    return folder


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


def test_a_package_passes_the_validator_of_openenv(package: Path) -> None:
    checks = validate_package(package)
    assert not [check for check in checks if check.status not in ("pass", "skip")]
    passed = [check.name for check in checks if check.status == "pass"]
    assert [name for name in passed if name.partition(".")[0] in {"static", "runtime"}] == RAN
    assert sum(name.startswith("running.") for name in passed) == 6
    oracle = next(check for check in checks if check.name == "recorded.oracle_max")
    floor = next(check for check in checks if check.name == "recorded.canary_floor")
    assert oracle.reason.startswith("bot:oracle earned 1.0")
    assert floor.reason.startswith("bot:random earned 0.0")


def test_a_package_is_complete(package: Path) -> None:
    names = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    assert names >= {
        *("openenv.yaml", "pyproject.toml", "README.md", "Dockerfile", ".dockerignore"),
        *("__init__.py", "models.py", "client.py", "server/__init__.py", "server/app.py"),
        *("validation/runtime.json", "validation/oracle.sh", "validation/canaries.json"),
    }
    assert not any("$" in (package / n).read_text() for n in names if n.endswith((".py", ".yaml")))
    # As an installed package has it: the folder under the name of the package, with a key.
    link = package.parent / "my_cluedo"
    link.symlink_to(package, target_is_directory=True)
    code = (
        "from my_cluedo import MyCluedoEnv, call; from my_cluedo.server.app import app; "
        "print(call('Show', 3, card='Rope').tool_name, app.user_middleware[0].cls.__name__)"
    )
    path = os.pathsep.join([str(package.parent), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, "ARENA_API_KEY": "secret"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "Show Guard\n", done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--opponents", "openai:gpt-4o"], "--opponents openai:gpt-4o: a package is validated by"),
        (["--opponents", "bot:nobody"], "nobody"),
        (["--name", "no name"], "--name no name: it must be a Python name"),
        (["--reward", "win=1"], "give --reward-range LOW,HIGH"),
        (["--reward", "win=1", "--reward-range", "a"], "--reward-range a: give LOW,HIGH"),
        (["--reward", "win=1", "--reward-range", "0,5"], "the range of the reward promises 5"),
    ],
)
def test_what_cannot_be_packaged_is_one_line(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["openenv", "package", "kuhn_poker", str(tmp_path / "new"), *flags]) in {1, 2}
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (package / "openenv.yaml").read_bytes()
    assert run(["openenv", "package", "cluedo", str(package)]) == 2
    assert "name a new folder, nothing is overwritten" in capsys.readouterr().err
    assert (package / "openenv.yaml").read_bytes() == before


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
