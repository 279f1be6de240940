"""Fixture `compare` of benchmarks: what is measured here beside something else, in one run.

Comparisons are printed at the end. With `--store` they become the rows of `results/speed.json`,
which docs/results.md shows; the rows of benchmarks that did not run stay as they are.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import pytest

HEADER = ("measured", "unit", "arena", "beside", "its figure", "arena is faster by")


class Compare(Protocol):
    """Record a figure of arena beside others in the same unit: of a speed, or of a time."""

    def __call__(
        self, what: str, unit: str, arena: float, beside: Mapping[str, float], *, time: bool = False
    ) -> None: ...


@dataclass
class Comparisons:
    """Rows of the table by test, in the order of measuring."""

    rows: dict[str, list[list[str]]] = field(default_factory=dict)

    def add(
        self,
        test: str,
        what: str,
        unit: str,
        arena: float,
        beside: Mapping[str, float],
        *,
        time: bool = False,
    ) -> None:
        for name, figure in beside.items():
            ratio = figure / arena if time else arena / figure
            cells = [what, unit, in_three_digits(arena), name, in_three_digits(figure)]
            shown = f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.1g}"
            self.rows.setdefault(test, []).append([*cells, shown])


def in_three_digits(figure: float) -> str:
    """Write 12345.6 as 12,300, 12.345 as 12.3 and 0.12345 as 0.123."""
    rounded = float(f"{figure:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


COMPARISONS = pytest.StashKey[Comparisons]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", action="store_true", help="write results/speed.json")


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Compare:
    """Record comparisons of this test."""
    comparisons = request.config.stash.setdefault(COMPARISONS, Comparisons())
    return partial(comparisons.add, request.node.nodeid)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table, and store it if asked to."""
    if COMPARISONS not in config.stash:
        return
    rows = config.stash[COMPARISONS].rows
    for cells in (HEADER, *(cells for each in rows.values() for cells in each)):
        terminalreporter.write_line(" | ".join(cells))
    if config.getoption("store"):
        store(rows)


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
    document = {"header": HEADER, "rows": [row for rows in by_test.values() for row in rows]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
