"""The table of tested libraries shows what the reports of pytest contain."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from code_blocks import ROOT

SUITE = """\
import pytest

def test_the_libraries_own_checks_pass(): pass
def test_masks_are_those_of_the_game(): assert False
def test_ppo_wins(): pass
@pytest.mark.skip(reason="no GPU")
def test_ppo_beats_all(): pass
@pytest.fixture
def broken(): raise OSError("no port")
def test_the_same_seed(broken): pass
"""
RULE = """\
test-sb3:
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 build/venv-sb3/bin/python -m pytest -p no:cacheprovider *.py
"""
ABSENT = 'import pytest\npytest.importorskip("no_such_library")\ndef test_ppo_wins(): pass\n'
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "docs" / "tools" / "compatibility.py"
    spec = importlib.util.spec_from_file_location("compatibility", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["compatibility"] = module  # Dataclasses look their module up.
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose `make test-sb3` runs pytest on `suite.py`, with two fake distributions."""
    environment = tmp_path / "build" / "venv-sb3"
    (environment / "bin").mkdir(parents=True)
    script = f'#!/bin/sh\nPYTHONPATH="{environment}" exec "{sys.executable}" "$@"\n'
    (environment / "bin" / "python").write_text(script)
    (environment / "bin" / "python").chmod(0o755)
    for name, version in (("stable-baselines3", "7.1.0"), ("sb3-contrib", "7.2.0rc1")):
        folder = environment / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(metadata)
    (tmp_path / "Makefile").write_text(RULE)
    return tmp_path


def test_counts_versions_and_capabilities_are_those_of_the_run(
    tool: ModuleType, project: Path
) -> None:
    (project / "suite.py").write_text(SUITE)
    [row] = tool.run_target("test-sb3", project)
    assert row == [
        "Stable-Baselines3",
        "stable-baselines3 7.1.0, sb3-contrib 7.2.0rc1",
        PYTHON,
        "its own environment check, MaskablePPO",  # Not those with a failed test.
        "2",
        "2",
        "1",
        "failed",
    ]


def test_a_socket_whose_tests_were_all_skipped_does_not_work(
    tool: ModuleType, project: Path
) -> None:
    (project / "suite.py").write_text(ABSENT)
    [row] = tool.run_target("test-sb3", project)
    assert row[3:] == ["", "0", "0", "1", "not tested"]


def test_all_passed(tool: ModuleType, project: Path) -> None:
    (project / "suite.py").write_text("def test_ppo_wins(): pass\n")
    [row] = tool.run_target("test-sb3", project)
    assert row[3:] == ["MaskablePPO", "1", "0", "0", "passed"]


def test_a_target_that_fails_beside_its_tests(tool: ModuleType, project: Path) -> None:
    (project / "suite.py").write_text("def test_ppo_wins(): pass\n")
    (project / "Makefile").write_text(f"{RULE}\tfalse\n")
    [row] = tool.run_target("test-sb3", project)
    assert row[3:] == ["MaskablePPO", "1", "0", "0", "failed"]


def test_a_target_that_fails_before_its_tests(tool: ModuleType, project: Path) -> None:
    """The report of an earlier run does not count."""
    (project / "suite.py").write_text("def test_ppo_wins(): pass\n")
    tool.run_target("test-sb3", project)
    (project / "Makefile").write_text("test-sb3:\n\texit 3\n")
    [row] = tool.run_target("test-sb3", project)
    assert row[3:] == ["", "0", "0", "0", "failed: the tests did not run"]


def test_each_test_counts_for_one_library(tool: ModuleType) -> None:
    names = [
        "tests.envs.test_openenv_package::test_trl_trains_for_three_steps",
        "tests.envs.test_openenv_server::test_many_sessions_at_once",
    ]
    cases = [tool.ReportedTest(name, "passed") for name in names]
    found = {
        socket.library: tool.tests_of(socket, cases)
        for socket in tool.SOCKETS
        if socket.target == "test-openenv"
    }
    assert found == {"TRL": cases[:1], "OpenEnv": cases[1:]}


def test_a_failed_target_is_named_after_the_others_have_run(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    stored: dict[str, list[list[str]]] = {}

    def run_target(target: str) -> list[list[str]]:
        ran.append(target)
        result = "failed" if target == "test-rllib" else "passed"
        own = [socket for socket in tool.SOCKETS if socket.target == target]
        return [[socket.library, "", "", "", "1", "0", "0", result] for socket in own]

    monkeypatch.setattr(tool, "run_target", run_target)
    monkeypatch.setattr(tool, "store", stored.update)
    monkeypatch.setattr(tool.results, "render", lambda paths: None)
    assert tool.main([]) == 1
    assert list(stored) == ran == [
        "test-openenv", "test-verifiers", "test-rllib", "test-sb3", "test-adapters"
    ]  # fmt: skip
    assert capsys.readouterr().err == "FAILED RLlib (test-rllib): failed\n"
    assert tool.main(["test-sb3"]) == 0
    assert tool.main(["test-nothing"]) == 2


def test_rows_of_other_targets_are_kept(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool.results, "commit", lambda root: "1234567")
    (tmp_path / "results").mkdir()
    rows = {name: [name, *[""] * 6, "passed"] for name in ("RLlib", "verifiers")}
    tool.store({"test-rllib": [rows["RLlib"]]}, tmp_path)
    path = tool.store({"test-verifiers": [rows["verifiers"]]}, tmp_path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [row["cells"] for row in document["rows"]] == [rows["verifiers"], rows["RLlib"]]
    assert document["rows"][1]["command"] == "make test-rllib"
    assert document["rows"][1]["commit"] == "1234567"


def test_capabilities_and_targets_exist(tool: ModuleType) -> None:
    """A renamed test or target must not silently empty the table."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in {socket.target for socket in tool.SOCKETS}:
        [recipe] = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, flags=re.M)
        files = [path for word in re.findall(r"tests/\S+", recipe) for path in ROOT.glob(word)]
        names = re.findall(r"^def (test_\w+)", "".join(map(Path.read_text, files)), flags=re.M)
        for socket in tool.SOCKETS:
            for pattern in socket.shown_by.values() if socket.target == target else ():
                assert any(re.search(pattern, name) for name in names), (socket.library, pattern)


def test_the_stored_table_names_known_libraries_in_order(tool: ModuleType) -> None:
    stored = json.loads((ROOT / "results" / "compatibility.json").read_text(encoding="utf-8"))
    libraries = [row["cells"][0] for row in stored["rows"]]
    assert libraries == [each.library for each in tool.SOCKETS if each.library in libraries]
    assert stored["header"] == list(tool.HEADER)


def test_the_commands_run(tmp_path: Path) -> None:
    script = ROOT / "docs" / "tools" / "compatibility.py"
    done = subprocess.run(
        [sys.executable, str(script), "test-nothing"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "the targets are test-openenv, test-verifiers" in done.stderr
