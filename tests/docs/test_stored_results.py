"""The tables of results in the documents are those of the stored results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from code_blocks import ROOT

import results

STORED = sorted((ROOT / "results").glob("*.json"))


def test_tables_are_up_to_date() -> None:
    assert not results.outdated(results.documents()), "python docs/tools/results.py render"


def test_codenames_is_not_listed_under_exact_knowledge() -> None:
    rows = {line.split("`")[1]: line for line in results.own_games().splitlines() if "`" in line}
    assert "exact knowledge" not in rows["codenames"] and "exact knowledge" in rows["avalon"]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_each_figure_names_its_origin(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    for entry in document.get("rows", [document]):
        assert entry["command"] and entry["date"]
        assert entry.get("commit") or entry.get("published_in")


def test_deals_for_reports_only_measure_what_is_published() -> None:
    for path in STORED:
        report = json.loads(path.read_text(encoding="utf-8")).get("report", {})
        is_published = path.stem.startswith("reported-")
        assert (report.get("seed") == results.REPORTING) == is_published, path.stem


def test_a_result_is_stored_with_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "commit", lambda root: "1234567")
    program = 'print(\'progress\'); print(\'{"games": 2, "results": "/home/x/run"}\')'
    path = results.store("ladder-3", [sys.executable, "-c", program], tmp_path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["report"] == {"games": 2}  # Without the path on the machine that measured.
    assert document["commit"] == "1234567"
    assert document["command"].split()[:2] == [Path(sys.executable).name, "-c"]
