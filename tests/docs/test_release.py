"""The check of a release: what it finds in archives, and the citation."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from code_blocks import ROOT
from release_check import archive_faults, read_archive


def test_the_citation_agrees_with_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = dict(re.findall(r'^([\w-]+): *"?([^"\n]+?)"?$', text, flags=re.M))
    assert {key: cited[key] for key in ("version", "license")} == {
        key: project[key] for key in ("version", "license")
    }
    names = re.findall(r'^  - name: *"?([^"\n]+?)"?$', text, flags=re.M)
    assert names == [author["name"] for author in project["authors"]]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(project['version'])}\b", changelog, flags=re.M)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("arena/tests/test_play.py", b"", "is a test"),
        ("arena/.env", b"", "is a hidden file"),
        ("arena/paths.py", b'OUT = "/home/somebody/runs"', "names /home/somebody/"),
    ],
)
def test_what_must_not_be_in_a_wheel_is_found(
    name: str, content: bytes, fault: str, tmp_path: Path
) -> None:
    path = tmp_path / "arena.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("arena.dist-info/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
        wheel.writestr("arena/__init__.py", "")
    assert list(archive_faults(path, read_archive(path))) == []
    with zipfile.ZipFile(path, "a") as wheel:
        wheel.writestr(name, content)
    (found,) = archive_faults(path, read_archive(path))
    assert fault in found and name in found
