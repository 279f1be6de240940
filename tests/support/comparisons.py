"""Fixture `compare` of benchmarks: what is measured here beside something else, in one run.

Comparisons are printed at the end. With `--store` they become the rows of `results/speed.json`,
which docs/results.md shows; the rows of benchmarks that did not run stay as they are.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any

import pytest

HEADER = ("measured", "unit", "arena", "beside", "its figure", "arena is faster by")


@dataclass(frozen=True, slots=True)
class Compare:
    """Records a figure of arena beside others in the same unit, of a speed or of a time."""

    rows: list[list[str]]
    """The table of one test, in the order of measuring."""

    def __call__(
        self, what: str, unit: str, arena: float, beside: Mapping[str, float], *, time: bool = False
    ) -> None:
        for name, figure in beside.items():
            ratio = figure / arena if time else arena / figure
            shown = f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.1g}"
            own, other = in_three_digits(arena), in_three_digits(figure)
            self.rows.append([what, unit, own, name, other, shown])


def in_three_digits(figure: float) -> str:
    """Write 12345.6 as 12,300, 12.345 as 12.3 and 0.12345 as 0.123."""
    rounded = float(f"{figure:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


ROWS = pytest.StashKey[dict[str, list[list[str]]]]()
"""Rows of the table by test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", action="store_true", help="write results/speed.json")


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Compare:
    """Record comparisons of this test."""
    rows = request.config.stash.setdefault(ROWS, {})
    return Compare(rows.setdefault(request.node.nodeid, []))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table, and store it if asked to."""
    measured = {test: rows for test, rows in config.stash.get(ROWS, {}).items() if rows}
    if not measured:
        return
    for cells in (HEADER, *chain.from_iterable(measured.values())):
        terminalreporter.write_line(" | ".join(cells))
    if config.getoption("store"):
        store(measured)


def store(measured: Mapping[str, list[list[str]]]) -> None:
    """Replace the rows of these tests, in place where they were before."""
    results = import_module("results")  # Of docs/tools.

    path = results.RESULTS / "speed.json"
    origin: dict[str, Any] = {
        "command": "make bench",
        "commit": results.commit(results.ROOT),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    by_test: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        by_test.setdefault(row["test"], []).append(row)
    for test, rows in measured.items():
        by_test[test] = [{"cells": cells, "test": test, **origin} for cells in rows]
    document = {"header": HEADER, "rows": [*chain.from_iterable(by_test.values())]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
