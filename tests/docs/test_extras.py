"""The table of extras that go together; `make test-extras` asks a resolver about each line."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("extras", ROOT / "docs" / "tools" / "extras.py")
assert SPEC is not None and SPEC.loader is not None
extras = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(extras)


def test_the_table_names_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = list(extras.stated(extras.GUIDE.read_text("utf-8")))
    assert {together for _, together in lines} == {True, False}
    assert all(len(names) > 1 for names, _ in lines)
    assert {name for names, _ in lines for name in names} <= set(project["optional-dependencies"])


def test_a_line_that_is_wrong_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text("| extras | together |\n| `a` + `b` | yes | |\n| `a` + `c` | no | why |\n")
    monkeypatch.setattr(extras, "GUIDE", guide)
    monkeypatch.setattr(extras, "resolve", lambda names: "a pins c" if "c" in names else "")
    assert extras.main([]) == 0
    monkeypatch.setattr(extras, "resolve", lambda names: "a pins b" if "b" in names else "")
    assert extras.main([]) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "a + b: no, the table is wrong",
        "a pins b",
        "a + c: yes, the table is wrong",
    ]
    assert extras.main(["c"]) == 1
