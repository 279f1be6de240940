"""Tasks of Harbor: its own package loads them, and their steps run without containers."""

# ruff: noqa: E402 - the imports below need Harbor.

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("harbor.models.task.task", reason="Harbor is not installed: make test-harbor")
pytestmark = pytest.mark.harbor

from harbor.lint.models import COMPOSE_RULES, DEFAULT_RULES
from harbor.lint.task import lint_task
from harbor.models.task.config import VerifierEnvironmentMode
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import resolve_task_verifier_mode
from harbor.models.trial.paths import TrialPaths
from harbor.verifier.verifier import Verifier

ARENA = [sys.executable, "-m", "arena"]
PORT = 18_765


def write(folder: Path, *words: str) -> dict[str, object]:
    """Write a task with the command; return what it prints with --json."""
    command = [*ARENA, "harbor", "task", *words[:1], str(folder), *words[1:], "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


class Trial:
    """The steps of a trial in a folder, with processes in place of containers."""

    def __init__(self, task: Path, root: Path) -> None:
        self.task, self.root = task, root
        for name in ("bin", "replays", "results", "logs"):
            (root / name).mkdir(parents=True)
        # The command of the container `main`, and `arena` of the container `game`.
        shutil.copy(task / "environment" / "game.py", root / "bin" / "game")
        (root / "bin" / "game").chmod(0o755)
        (root / "bin" / "arena").write_text(f'#!/bin/sh\nexec {" ".join(ARENA)} "$@"\n')
        (root / "bin" / "arena").chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "GAME_URL": f"http://127.0.0.1:{PORT}/mcp",
            "GAME_HANDLE": str(root / "handle"),
            "LOGS": str(root / "logs"),
            "RESULTS": str(root / "results"),
        }

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*map(str, words)],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the service of the game."""
        script = self.task / "environment" / "game" / "serve.sh"
        words = ["sh", str(script), str(self.root / "replays"), str(PORT)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(words, cwd=self.root, env=self.environment, stdout=pipe)
        try:
            for _ in range(100):
                if self.run("game", "wait").returncode == 0:
                    break
                time.sleep(0.3)
            yield
        finally:
            process.terminate()
            process.communicate(timeout=20)

    def rewards(self) -> dict[str, float]:
        """Run the collect hook and the tests; return the rewards as Harbor reads them."""
        [hook] = Task(self.task).config.verifier.collect
        command = hook.command.replace("python ", f"{sys.executable} ")
        for name in ("replays", "results"):
            command = command.replace(f"/{name}", str(self.root / name))
        collected = self.run("sh", "-c", command)
        assert collected.returncode == 0, collected.stderr
        tested = self.run("sh", self.task / "tests" / "test.sh")
        assert tested.returncode == 0, tested.stderr
        paths = TrialPaths(self.root / "logs")
        reader = Verifier.__new__(Verifier)
        reader.trial_paths = paths
        return dict(reader._parse_reward_json())


@pytest.mark.parametrize(
    "words", [("kuhn_poker",), ("cluedo", "--players", "3"), ("liars_dice", "--seed", "7")]
)
def test_solution_earns_its_reward(words: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "a-task"
    made = write(folder, *words)
    assert Task.is_valid_dir(folder)
    trial = Trial(folder, tmp_path / "trial")
    with trial.serving():
        solved = trial.run("sh", folder / "solution" / "solve.sh")
        assert solved.returncode == 0, solved.stderr
        rewards = trial.rewards()
    solution = made["solution"]
    assert isinstance(solution, dict)
    assert rewards["reward"] == solution["reward"]
    assert rewards["fallback_moves"] == 0
    assert words[0] != "cluedo" or len(rewards) > 3


def test_task_as_harbor_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "Kuhn 1"
    write(folder, "kuhn_poker")
    task = Task(folder)
    assert task.name == "arena/kuhn-1"
    assert "game act" in task.instruction
    assert resolve_task_verifier_mode(task.config) == VerifierEnvironmentMode.SEPARATE
    [server] = task.config.environment.mcp_servers
    assert server.transport == "streamable-http" and server.url == "http://127.0.0.1:8765/mcp"
    compose = (folder / "environment" / "docker-compose.yaml").read_text()
    assert 'network_mode: "service:main"' in compose


def test_the_agents_container_holds_no_secret(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    made = write(folder, "cluedo")
    seed = str(made["seed"])
    assert len(seed) > 12
    holders = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    holders = {name for name in holders if seed in (folder / name).read_text()}
    # Built into the container of the game, or read by Compose on the host.
    assert holders == {"environment/docker-compose.yaml", "environment/game/serve.sh"}
    copied = [
        line.split()[1]
        for line in (folder / "environment" / "Dockerfile").read_text().splitlines()
        if line.startswith(("COPY", "ADD"))
    ]
    assert copied == ["game.py"]
    config = Task(folder).config
    assert not config.environment.env and not config.verifier.env and not config.solution.env


def test_game_that_does_not_end_earns_the_lowest(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    made = write(folder, "kuhn_poker")
    trial = Trial(folder, tmp_path / "trial")
    with trial.serving():
        assert "Kuhn poker" in trial.run("game", "rules").stdout
        assert "pass" in trial.run("game", "actions").stdout
        refused = trial.run("game", "act", "fly away")
        assert refused.returncode == 1 and refused.stderr.startswith("game: ")
        assert trial.run("game", "shuffle").returncode == 1
        assert trial.rewards() == {"reward": made["lowest"]}
    asked = trial.run("game", "view")
    assert asked.returncode == 1 and "cannot be asked" in asked.stderr
    assert asked.stderr.count("\n") == 1


def test_one_game_only(tmp_path: Path) -> None:
    """A second game, in which the agent knows the first, is not played."""
    folder = tmp_path / "task"
    made = write(folder, "kuhn_poker")
    trial = Trial(folder, tmp_path / "trial")
    with trial.serving():
        trial.run("sh", folder / "solution" / "solve.sh")
        (trial.root / "handle").unlink()
        again = trial.run("game", "view")
        assert again.returncode == 1
    solution = made["solution"]
    assert isinstance(solution, dict)
    assert trial.rewards()["reward"] == solution["reward"]


def test_lint(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    write(folder, "kuhn_poker")
    # Rules about Compose need Docker's command.
    assert not lint_task(folder, selected_rules=DEFAULT_RULES - set(COMPOSE_RULES))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("kuhn_poker", "{old}"), "nothing is overwritten"),
        (("kuhn_poker", "{new}", "--opponents", "human"), "need bots"),
        (("kuhn_poker", "{new}", "--solver", "bot:nobody"), "no bot 'nobody'"),
    ],
)
def test_wrong_flags(words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    places = {"{old}": str(tmp_path), "{new}": str(tmp_path / "new")}
    command = [*ARENA, "harbor", "task", *(places.get(word, word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert reason in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()
