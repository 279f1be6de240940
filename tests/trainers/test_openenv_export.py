"""Exported training traces, read by OpenEnv's own class (openenv 0.10.0)."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_export import cluedo, export, record  # noqa: F401 - a fixture.
from test_trace_exports import WithTemplate, choosing

pytestmark = [
    pytest.mark.openenv,
    # The library's own warnings are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]


def test_exported_traces_are_those_of_openenv(cluedo: Path, tmp_path: Path) -> None:  # noqa: F811
    training = pytest.importorskip("openenv.core.harness.training", reason="openenv 0.10.0")
    growing = record(tmp_path, "chat", choosing(noisy=True), backend=WithTemplate, tokens=99)
    fresh = record(tmp_path, "fresh", choosing(noisy=False), chat="fresh")
    out = tmp_path / "out.jsonl"
    export([cluedo, growing, fresh], "openenv", out)
    lines = out.read_bytes().splitlines()
    assert len(lines) == 3
    for line in lines:
        # Strict: no further fields, aligned log-probabilities, none above 0, masked prompts.
        trace = training.TrainingTrace.model_validate_json(line)
        assert len(trace.turns) > 2
        back = training.TrainingTrace.from_entries(trace.to_trace_entries())
        for turn, same in zip(trace.turns, back.turns, strict=True):
            # OpenEnv adds the id to the metadata.
            assert same.metadata == {**turn.metadata, "node_id": turn.node_id}
            assert same.model_copy(update={"metadata": turn.metadata}) == turn
