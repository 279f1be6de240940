"""The check of a release: what it finds in archives and in CITATION.cff."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Its dataclasses look for it.
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return load("release_check")


def test_the_citation_agrees_with_the_project(check: ModuleType) -> None:
    assert list(check.citation_faults()) == []


@pytest.mark.parametrize("name", ["CITATION.cff", "CHANGELOG.md"])
def test_another_version_is_found(check: ModuleType, name: str, tmp_path: Path) -> None:
    for each in ("CITATION.cff", "CHANGELOG.md", "pyproject.toml"):
        shutil.copy(ROOT / each, tmp_path)
    (path := tmp_path / name).write_text(path.read_text().replace("0.1.0", "0.0.9"))
    (fault,) = check.citation_faults(tmp_path)
    assert name in fault


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("arena/tests/test_play.py", b"", "is a test"),
        ("arena/.env", b"", "is a hidden file"),
        ("arena/paths.py", b'OUT = "/home/somebody/runs"', "names /home/somebody/"),
        ("arena/vendored.js", b"/* Copyright " + b"(c) 2026 Them */", "has a notice of copyright"),
    ],
)
def test_what_must_not_be_in_a_wheel_is_found(
    check: ModuleType, name: str, content: bytes, fault: str, tmp_path: Path
) -> None:
    path = tmp_path / "arena.whl"
    license_text = (ROOT / "LICENSE").read_bytes()
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("arena.dist-info/licenses/LICENSE", license_text)
        wheel.writestr("arena/__init__.py", "")
        clean = path  # As it is without the file below.
    assert list(check.archive_faults(clean, check.read_archive(clean))) == []
    with zipfile.ZipFile(path, "a") as wheel:
        wheel.writestr(name, content)
    (found,) = check.archive_faults(path, check.read_archive(path))
    assert fault in found and name in found


def test_a_source_distribution_is_read_without_its_folder(
    check: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "arena.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(ROOT / "LICENSE", "arena-1.0/LICENSE")
    assert list(check.read_archive(path)) == ["LICENSE"]
    path.write_bytes(path.read_bytes())
    assert list(check.archive_faults(path, {})) == [f"{path.name} lacks the file LICENSE"]


def test_each_extra_has_a_command(check: ModuleType) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    smoke = tomllib.loads(check.SMOKE.read_text(encoding="utf-8"))
    assert set(smoke) == {"core", *project["optional-dependencies"]}
    assert all(entry["run"].strip() for entry in smoke.values())


def test_the_soak_names_what_is_lost_doubled_or_different() -> None:
    soak = load("soak")
    found = soak.differences({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"})
    assert list(found) == ["b differs", "c is lost", "d is too much"]
    steady = [(100.0, 9)] * 40
    assert not list(soak.growth_faults(steady))
    assert len(list(soak.growth_faults([*steady, *[(150.0, 30)] * 20]))) == 2
    assert list(soak.growth_faults([])) == ["the server was not recorded"]
