"""Test arena's sockets to other libraries and store what works, for the table of the guide.

    python docs/tools/compatibility.py               # every target
    python docs/tools/compatibility.py test-sb3 …    # these targets; other rows stay as they are

A target is a rule of the Makefile that makes an environment with the libraries and runs their tests
there. A target that fails is a row that says so, the others still run, and the exit code is 1.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

# Also when a test loads this file by its path.
sys.path.append(str(Path(__file__).parent))
import results

HEADER = (
    "library",
    "tested version",
    "Python",
    "exercised",
    "passed",
    "failed",
    "skipped",
    "result",
)


@dataclass(frozen=True)
class Socket:
    """A library that arena plugs into, or the other way round.

    Attributes:
        library: Its name for readers.
        packages: Its distributions, whose versions are stored.
        target: The rule of the Makefile that tests it.
        shown_by: Capabilities, each with a pattern of the names of the tests that show it.
        tests: Pattern of the names of its tests; without one, all tests of the target that belong
            to no other library.
    """

    library: str
    packages: tuple[str, ...]
    target: str
    shown_by: Mapping[str, str]
    tests: str = ""


GAMES = {
    "conformance kit": "conformance",
    "copies and replays": "draw_by_themselves",
    "survey of all games": "survey",
}
SOCKETS = (
    Socket(
        "OpenEnv",
        ("openenv",),
        "test-openenv",
        {
            "server": "by_its_functions",
            "many sessions": "many_sessions",
            "shared episodes": "share_an_episode",
            "search for leaks": "depends_on_what_is_hidden",
            "packages": "package_is_complete",
            "its own validator": "validator",
            "training traces": "exported_traces",
        },
    ),
    Socket("TRL", ("trl",), "test-openenv", {"GRPO through OpenEnv": "trl_trains"}, tests="trl"),
    Socket(
        "verifiers",
        ("verifiers",),
        "test-verifiers",
        {
            "packages": "is_a_package",
            "its command line": "command_line",
            "several seats": "several_seats",
            "groups": "share_the_deal",
            "export of episodes": "exported_episodes|export_passes",
        },
    ),
    Socket(
        "RLlib",
        ("ray",),
        "test-rllib",
        {
            "its own environment check": "own_check",
            "action masks and rewards": "observations_fit",
            "PPO": "ppo_learns",
        },
    ),
    Socket(
        "Stable-Baselines3",
        ("stable-baselines3", "sb3-contrib"),
        "test-sb3",
        {
            "its own environment check": "own_checks",
            "action masks": "masks_are",
            "MaskablePPO": "ppo_beats|ppo_wins",
            "many games at once": "single_environment",
            "equal seeds, equal learners": "same_seed",
        },
    ),
    Socket(
        "OpenSpiel",
        ("open_spiel",),
        "test-adapters",
        {**GAMES, "equal returns": "same_returns"},
    ),
    Socket("PettingZoo", ("pettingzoo",), "test-adapters", GAMES, tests="pettingzoo"),
    Socket("TextArena", ("textarena",), "test-adapters", GAMES, tests="textarena"),
)


@dataclass(frozen=True)
class ReportedTest:
    """One test of a report: its full name, and `passed`, `failed` or `skipped`."""

    name: str
    state: str


def read_report(path: Path) -> list[ReportedTest] | None:
    """Return the tests of a JUnit report of pytest; None if there is no readable one."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    return [
        ReportedTest(f"{case.get('classname', '')}::{case.get('name', '')}", _state(case))
        for case in root.iter("testcase")
    ]


def _state(case: ElementTree.Element) -> str:
    # An error is a fault outside of the test itself, such as in a fixture or an import.
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def tests_of(socket: Socket, cases: Sequence[ReportedTest]) -> list[ReportedTest]:
    """Return the tests of one library among those of its target; each test has one library."""
    if socket.tests:
        return [case for case in cases if re.search(socket.tests, case.name)]
    others = [each.tests for each in SOCKETS if each.target == socket.target and each.tests]
    return [case for case in cases if not any(re.search(word, case.name) for word in others)]


def exercised(socket: Socket, cases: Sequence[ReportedTest]) -> list[str]:
    """Return the capabilities of which some test passed and none failed."""
    found = []
    for capability, pattern in socket.shown_by.items():
        states = {case.state for case in cases if re.search(pattern, case.name)}
        if "passed" in states and "failed" not in states:
            found.append(capability)
    return found


def cells(
    socket: Socket, cases: Sequence[ReportedTest] | None, code: int, versions: Mapping[str, str]
) -> list[str]:
    """Return the row of a library.

    Args:
        socket: The library.
        cases: All tests of its target, or None if they did not run to their end.
        code: The exit code of the target.
        versions: Versions by distribution, and that of `python`; empty without an environment.
    """
    own = tests_of(socket, cases or ())
    counts = {
        state: sum(case.state == state for case in own) for state in ("passed", "failed", "skipped")
    }
    some_failed = any(case.state == "failed" for case in cases or ())
    if cases is None:
        result = "failed: the tests did not run"
    elif counts["failed"]:
        result = "failed"
    elif not counts["passed"]:  # Tests that are all skipped show nothing.
        result = "not tested"
    else:
        # Without a failed test of any library, the target failed beside its tests.
        result = "failed" if code and not some_failed else "passed"
    installed = [f"{name} {versions.get(name, 'not installed')}" for name in socket.packages]
    return [
        socket.library,
        ", ".join(installed),
        versions.get("python", ""),
        ", ".join(exercised(socket, own)),
        *map(str, counts.values()),
        result,
    ]


def installed_versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """Return the versions that an environment has of these distributions, and of `python`."""
    program = (
        "import json, platform, sys\n"
        "from importlib.metadata import PackageNotFoundError, version\n"
        "found = {'python': platform.python_version()}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = version(name)\n"
        "    except PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    if not python.exists():
        return {}
    command = [str(python), "-c", program, *packages]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, str] = json.loads(run.stdout)
    return found


def run_target(target: str, root: Path = results.ROOT) -> list[list[str]]:
    """Run one target of the Makefile; return the rows of its libraries."""
    report = root / "build" / "sockets" / f"{target}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)  # One of an earlier run must not count.
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} --junitxml={shlex.quote(str(report))}"
    make = os.environ.get("MAKE", "make")
    run = subprocess.run(
        [make, target], check=False, cwd=root, env={**os.environ, "PYTEST_ADDOPTS": options.strip()}
    )
    python = root / "build" / target.replace("test-", "venv-") / "bin" / "python"
    own = [socket for socket in SOCKETS if socket.target == target]
    versions = installed_versions(python, [name for socket in own for name in socket.packages])
    return [cells(socket, read_report(report), run.returncode, versions) for socket in own]


def store(rows: Mapping[str, Sequence[Sequence[str]]], root: Path = results.ROOT) -> Path:
    """Write the rows of these targets to `results/`; rows of other targets stay as they are."""
    path = root / "results" / "compatibility.json"
    stored = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    by_library = {row["cells"][0]: row for row in stored}
    for target, own in rows.items():
        origin = {
            "command": f"make {target}",
            "commit": results.commit(root),
            "date": datetime.now(UTC).date().isoformat(),
        }
        by_library |= {row[0]: {"cells": list(row), **origin} for row in own}
    ordered = [by_library[each.library] for each in SOCKETS if each.library in by_library]
    document = {"header": HEADER, "rows": ordered}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def main(targets: Sequence[str]) -> int:
    """Test these targets, or all; return 0 if each of their libraries has passed."""
    known = list(dict.fromkeys(socket.target for socket in SOCKETS))
    if unknown := [target for target in targets if target not in known]:
        print(f"{', '.join(unknown)}: the targets are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for target in targets or known:
        rows = run_target(target)
        store({target: rows})  # At once: a later interruption loses no row.
        failed += [f"{row[0]} ({target}): {row[-1]}" for row in rows if row[-1] != "passed"]
    results.render([results.ROOT / "docs" / "guides" / "other-trainers.md"])
    for line in failed:
        print(f"FAILED {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
