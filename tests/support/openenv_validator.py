"""OpenEnv's validator on a package whose server runs as a process of this machine.

`openenv validate` builds a container. Here its checks run without one, and those that need a
container are skipped. Two checks follow that OpenEnv 0.10.0 names and does not have yet: the
recorded games are played again.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from command_line import wait_until
from openenv.cli._validation import validate_running_environment
from openenv.core import GenericEnvClient
from openenv.validation import CheckStatus, Verdict, run_validation
from openenv.validation.types import ProviderCapability


class PackageCheck(NamedTuple):
    """Result of one check: pass, fail or skip."""

    name: str
    status: str
    reason: str


def validate_package(directory: Path) -> list[PackageCheck]:
    """Run all checks on a package."""
    with _served(directory) as url:
        report = run_validation(directory, provider=LocalProvider(url))
        # An error of a check says nothing good about the package.
        error = {CheckStatus.ERROR: "fail"}
        checks = [
            PackageCheck(
                each.check_id,
                error.get(each.status, str(each.status.value)),
                " ".join(each.evidence),
            )
            for each in report.results
        ]
        if report.verdict is Verdict.FAIL and all(check.status != "fail" for check in checks):
            checks.append(PackageCheck("verdict", "fail", "OpenEnv's policy refuses the package"))
        for criterion in validate_running_environment(url)["criteria"]:
            name, reason = f"running.{criterion['id']}", criterion["description"]
            checks.append(PackageCheck(name, _status(criterion["passed"]), reason))
        return checks + list(_check_recordings(directory, url))


def _status(is_right: bool) -> str:
    return "pass" if is_right else "fail"


class LocalProvider:
    """Provider of OpenEnv's validator for a server that runs already, and that its owner stops."""

    name = "local-process"
    # The image is the folder itself, which the server was started from.
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})

    def __init__(self, url: str) -> None:
        self.base_url = url

    def build(self, root: Path, execution: object) -> str:
        """Return the name of no image."""
        return f"sha256:{'0' * 64}"

    def start(self, spec: object) -> LocalProvider:
        """Return the server."""
        return self

    def inspect(self) -> dict[str, str]:
        """Return what is known about the process."""
        return {"provider": self.name}

    def logs(self, max_bytes: int = 65_536) -> str:
        """Return no logs: they go to standard error."""
        return ""

    def stop(self) -> None:
        """Do nothing: the server is stopped after all checks."""


@contextmanager
def _served(directory: Path) -> Iterator[str]:
    """Run the server of a package; yield its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(directory / "server" / "app.py"), "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:

        def is_healthy() -> bool:
            assert process.poll() is None, "the server of the package has ended"
            try:
                return httpx.get(f"{url}/health", timeout=5).status_code == 200
            except httpx.TransportError:
                return False

        try:
            # Its imports take several seconds, on a busy machine minutes.
            wait_until(is_healthy, 300)
            yield url
        finally:
            process.terminate()


def _check_recordings(directory: Path, url: str) -> Iterator[PackageCheck]:
    """Play the recorded games twice: their rewards must be the recorded ones, and equal bytes."""
    for name, file in (("oracle_max", "oracle"), ("canary_floor", "canaries")):
        for game in json.loads((directory / "validation" / f"{file}.json").read_text("utf-8")):
            first, second = _played(url, game), _played(url, game)
            _, reward, done = first[-1]
            facts = f"{game['player']} earned {reward}, recorded {game['reward']:g}"
            is_right = done and reward == game["reward"]
            yield PackageCheck(f"recorded.{name}", _status(is_right), facts)
            facts = f"{len(first)} observations of seed {game['seed']}, twice"
            yield PackageCheck(f"recorded.determinism_{file}", _status(first == second), facts)


def _played(url: str, game: dict[str, Any]) -> list[tuple[Any, float | None, bool]]:
    """Return all that is served in one recorded game: observation, reward, whether it is over."""
    with GenericEnvClient(base_url=url).sync() as env:
        results = [env.reset(seed=game["seed"], seat=game["seat"])]
        results += [env.step(action) for action in game["actions"]]
    return [(each.observation, each.reward, each.done) for each in results]
