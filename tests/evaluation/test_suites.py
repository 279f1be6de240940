"""Benchmark suites: what is fixed and what is checked."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena.agents.seating import bot_names
from arena.core.errors import ArenaError, UsageError
from arena.evaluation.suites import Suite, bundled_suites, find_suite, read_suite

PUBLISHED = {
    "clue-bench 1": "8476e3aae9ef",
    "deception 1": "d3056671efa9",
    "hidden-info-8 2": "ca332a46db76",
    "mini 2": "6c8b0e4e34a6",
}


def task(name: str, **more: Any) -> dict[str, Any]:
    fields = {"skill": "deduction", "game": "cluedo", "against": ["bot:novice"]}
    return {"id": name, **fields, "baseline": "bot:novice", "deals": 2, "seed": 1, **more}


def suite_json(**more: Any) -> dict[str, Any]:
    fields = {"name": "small", "version": 1, "about": "Cluedo.", "max_attempts": 3}
    return {**fields, "tasks": [task("a"), task("b")], **more}


def test_bundled_suites_are_complete_and_fix_their_deals() -> None:
    for suite in bundled_suites().values():
        seeds = {slot.seed for each in suite.tasks for slot in each.schedule("bot:x")}
        # Each deal occurs once, with its two games: those of player and baseline.
        assert len(seeds) == sum(each.deals for each in suite.tasks)
        for each in suite.tasks:
            specs = {*each.against, each.baseline} - {"self"}
            assert specs <= {f"bot:{name}" for name in bot_names(each.game)}


def test_bundled_suites_have_not_changed() -> None:
    """A change of a suite would make earlier results incomparable: raise its version."""
    contents = {s.label: s.model_dump_json().encode() for s in bundled_suites().values()}
    hashes = {label: hashlib.sha256(text).hexdigest()[:12] for label, text in contents.items()}
    assert hashes == PUBLISHED


def test_the_baseline_plays_each_deal_once() -> None:
    (first, *_) = bundled_suites()["mini"].tasks
    assert first.baseline_of(first.baseline) is None
    slots = list(first.schedule(first.baseline))
    assert len(slots) == first.deals == len({slot.seed for slot in slots})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tasks": []}, "at least 1"),
        ({"tasks": [task("a"), task("a")]}, "one id"),
        ({"tasks": [task("../up")]}, "id"),
        ({"tasks": [task("a", deals=10**9)]}, "deals"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_suite_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(suite_json(**change)))
    with pytest.raises(ArenaError, match=words):
        read_suite(path)


def test_an_unknown_suite_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="clue-bench, deception, hidden-info-8, mini"):
        find_suite("nonsense")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*Suite.model_fields, "tasks.0"]), VALUES)
def test_any_file_is_a_suite_or_one_clear_error(tmp_path: Path, name: str, value: Any) -> None:
    fields = suite_json()
    if name == "tasks.0":
        fields["tasks"][0] = value
    else:
        fields[name] = value
    path = tmp_path / "any.json"
    path.write_text(json.dumps(fields))
    try:
        assert isinstance(read_suite(path), Suite)
    except ArenaError as error:
        assert "\n" not in str(error)
