"""The tables of results in the documents are those of the stored results."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import ROOT

SCRIPT = ROOT / "docs" / "tools" / "results.py"
STORED = sorted((ROOT / "results").glob("*.json"))


def test_tables_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stderr}run `make results`"


def test_codenames_is_not_listed_under_exact_knowledge() -> None:
    table = (ROOT / "docs" / "guides" / "games.md").read_text(encoding="utf-8")
    rows = [line for line in table.splitlines() if line.startswith(("| `codenames`", "| `avalon`"))]
    assert ["exact knowledge" in row for row in rows] == [False, True]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_each_figure_names_its_origin(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    for entry in document.get("rows", [document]):
        assert entry["command"] and entry["date"]
        assert entry.get("commit") or entry.get("published_in")


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_each_stored_result_is_shown(path: Path) -> None:
    """Fail for a file that no table uses."""
    guides = ("games", "openspiel", "other-trainers", "benchmark", "install", "long-runs")
    pages = ["results.md", "reproductions.md", *(f"guides/{guide}.md" for guide in guides)]
    tables = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages)
    shown = {"ladder": "ladder", "strength": "clue-tiny"}.get(path.stem.split("-")[0], path.stem)
    assert f"<!-- results: {shown} -->" in tables


def test_a_result_is_stored_with_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("results", SCRIPT)
    assert spec and spec.loader
    results = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(results)
    monkeypatch.setattr(results, "commit", lambda root: "1234567")
    program = 'print(\'progress\'); print(\'{"games": 2, "results": "/home/x/results.sqlite"}\')'
    path = results.store("ladder-3", [sys.executable, "-c", program], tmp_path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["report"] == {"games": 2}  # Without the path on the machine that measured.
    assert document["commit"] == "1234567"
    assert document["command"].startswith("arena -c")
