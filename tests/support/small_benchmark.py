"""A small suite and its submissions, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from arena.cli import run
from arena.evaluation.benchmark import Suite

NOVICE = "bot:novice"


def task(name: str, players: int, deals: int, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "skill": "deduction",
        "game": "cluedo",
        "options": {"players": players},
        "against": [NOVICE],
        "baseline": NOVICE,
        "deals": deals,
        "seed": sum(map(ord, name)),  # Tasks share no deals.
        **more,
    }


def suite_json(*tasks: dict[str, Any], name: str = "small", **more: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "name": name,
        "version": 1,
        "title": "Small",
        "about": "Cluedo at two tables.",
        "max_attempts": 3,
        "tasks": list(tasks) or [task("two", 2, 3, skill="duel"), task("three", 3, 2)],
        **more,
    }


def write_suite(path: Path, *tasks: dict[str, Any], **more: Any) -> Path:
    path.write_text(json.dumps(suite_json(*tasks, **more)), encoding="utf-8")
    return path


def a_suite(*tasks: dict[str, Any], **more: Any) -> Suite:
    return Suite.model_validate(suite_json(*tasks, **more))


def bench(*words: str | Path) -> int:
    """Run `arena bench` in this process; return its exit code."""
    return run(["bench", *map(str, words)])


def submit(suite: Path, player: str, folder: Path, *more: str) -> Path:
    """Run a suite with a player in this process."""
    words = ("--executor", "local", *more)
    assert bench("run", suite, "--player", player, "--out", folder, *words) == 0
    return folder
