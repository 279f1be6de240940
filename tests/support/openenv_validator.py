"""OpenEnv's validator on a package whose server runs as a process of this machine.

`openenv validate` builds a container. Here its checks run without one, and those that need a
container are skipped. Two checks follow that OpenEnv 0.10.0 names and does not have yet: the
recorded games are played again.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openenv.cli._validation import validate_running_environment
from openenv.core import GenericEnvClient
from openenv.validation import CheckStatus, Verdict, run_validation
from openenv.validation.types import ProviderCapability
from pydantic import JsonValue

from arena.core.errors import ArenaError

START_SECONDS = 300.0
"""Time for the server to start: its imports take several seconds, on a busy machine minutes. One
that has ended is noticed at once."""


@dataclass(frozen=True, slots=True)
class PackageCheck:
    """Result of one check: pass, fail or skip."""

    name: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class PackageReport:
    """All checks of a package; it has passed if none has failed."""

    checks: tuple[PackageCheck, ...]

    @property
    def passed(self) -> bool:
        """True if checks have run and none has failed."""
        ran = [check for check in self.checks if check.status != "skip"]
        return bool(ran) and all(check.status == "pass" for check in ran)

    def lines(self) -> Iterator[str]:
        """Yield a line for each check that ran, and one with the names of the others."""
        for check in self.checks:
            if check.status != "skip":
                yield f"{check.status.upper():5} {check.name}: {check.reason}"
        for reason in dict.fromkeys(c.reason for c in self.checks if c.status == "skip"):
            names = [c.name for c in self.checks if c.status == "skip" and c.reason == reason]
            yield f"SKIP  {len(names)} ({reason}): {', '.join(names)}"


def validate_package(directory: Path) -> PackageReport:
    """Run all checks on a package. Raises ArenaError if its server does not start."""
    with _served(directory) as url:
        report = run_validation(directory, provider=LocalProvider(url))
        checks = [
            PackageCheck(
                result.check_id,
                # An error of a check says nothing good about the package.
                "fail" if result.status is CheckStatus.ERROR else str(result.status.value),
                " ".join(result.evidence),
            )
            for result in report.results
        ]
        if report.verdict is Verdict.FAIL and all(check.status != "fail" for check in checks):
            checks.append(PackageCheck("verdict", "fail", "OpenEnv's policy refuses the package"))
        for criterion in validate_running_environment(url)["criteria"]:
            status = "pass" if criterion["passed"] else "fail"
            name = f"running.{criterion['id']}"
            checks.append(PackageCheck(name, status, criterion["description"]))
        checks += _check_recordings(directory, url)
    return PackageReport(tuple(checks))


class LocalProvider:
    """Provider of OpenEnv's validator for a server that runs already."""

    name = "local-process"
    # The image is the folder itself, which the server was started from.
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})

    def __init__(self, url: str) -> None:
        self._url = url

    def build(self, root: Path, execution: object) -> str:
        """Return a digest of the manifest in the place of an image."""
        digest = hashlib.sha256((root / "openenv.yaml").read_bytes()).hexdigest()
        return f"sha256:{digest}"

    def start(self, spec: object) -> LocalSubject:
        """Return the server."""
        return LocalSubject(self._url)


class LocalSubject:
    """A server that its owner stops."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def inspect(self) -> dict[str, JsonValue]:
        """Return what is known about the process."""
        return {"provider": LocalProvider.name}

    def logs(self, max_bytes: int = 65_536) -> str:
        """Return no logs: they go to standard error."""
        return ""

    def exec(self, argv: list[str], timeout_s: float) -> object:
        """Raise ArenaError: no check of OpenEnv 0.10.0 runs commands."""
        raise ArenaError("commands are not run beside the server")

    def stop(self) -> None:
        """Do nothing: the server is stopped after all checks."""


@contextmanager
def _served(directory: Path) -> Iterator[str]:
    """Run the server of a package; yield its URL. Raises ArenaError if it does not start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(directory / "server" / "app.py"), "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_until_healthy(url, process)
            yield url
        finally:
            process.terminate()


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise ArenaError(f"the server of the package ended with exit code {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise ArenaError(f"the server of the package did not start within {START_SECONDS:g} seconds")


def _check_recordings(directory: Path, url: str) -> Iterator[PackageCheck]:
    """Play the recorded games twice: their rewards must be the recorded ones, and equal bytes."""
    for name, file in (("oracle_max", "oracle"), ("canary_floor", "canaries")):
        games = json.loads((directory / "validation" / f"{file}.json").read_text("utf-8"))
        for game in games:
            first, second = _played(url, game), _played(url, game)
            reward = first[-1]["reward"] if first[-1]["done"] else None
            facts = f"{game['player']} earned {reward}, recorded {game['reward']:g}"
            is_right = reward == game["reward"]
            yield PackageCheck(f"recorded.{name}", "pass" if is_right else "fail", facts)
            status = "pass" if first == second else "fail"
            facts = f"{len(first)} observations of seed {game['seed']}, twice"
            yield PackageCheck(f"recorded.determinism_{file}", status, facts)


def _played(url: str, game: dict[str, JsonValue]) -> list[dict[str, JsonValue]]:
    """Return all that is served in one recorded game."""
    actions = game["actions"]
    assert isinstance(actions, list)
    with GenericEnvClient(base_url=url).sync() as env:
        results = [env.reset(seed=game["seed"], seat=game["seat"])]
        results += [env.step(action) for action in actions]
    return [
        {"observation": each.observation, "reward": each.reward, "done": each.done}
        for each in results
    ]
