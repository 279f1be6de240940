"""`arena list models`, and the script that makes SmolLM2 a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_model import TINY_FAMILIES, build_tiny_model

from arena.cli import run
from backends.embedded.architecture import read_architecture


def test_models_are_listed_with_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest checkpoints of a run of ART and of an embedded one, and one of no use."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARENA_TRAIN_LOG_DIR", str(tmp_path / "runs"))
    steps = tmp_path / "runs" / "try" / "art" / "p" / "models" / "m" / "checkpoints"
    own, odd = (tmp_path / "runs" / name / "checkpoints" / "0003" for name in ("own", "odd"))
    for folder in (steps / "0001", steps / "0002", own):
        build_tiny_model(folder, **TINY_FAMILIES["qwen2"])
    odd.mkdir(parents=True)
    (odd / "config.json").write_text('{"model_type": "gpt2"}')
    Path("arena.toml").write_text('[models."openai:gpt-99"]\nprice_in = 2\nprice_out = 8\n')
    assert run(["list", "models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["configured"] == {"openai:gpt-99": {"price_in": 2.0, "price_out": 8.0}}
    models = {each["name"]: each for each in listed["models"]}
    assert list(models) == ["clue-notebook", "clue-tiny", *map(str, (odd, own, steps / "0002"))]
    assert [each["source"] for each in models.values()] == [
        *("bundled", "bundled", "run odd", "run own", "run try")]  # fmt: skip
    assert "gpt2" in models[str(odd)]["fault"] and models[str(odd)]["parameters"] is None
    tiny = models[str(own)]
    assert (tiny["family"], tiny["context"], tiny["spec"]) == (
        "Qwen2 and Qwen2.5",
        2048,
        f"embedded:{own}",
    )
    assert tiny["parameters"] == read_architecture(own).parameters
    assert 4 * tiny["parameters"] < tiny["file_bytes"] < 5 * tiny["parameters"] + 100_000
    assert run(["list", "models"]) == 0
    table = capsys.readouterr().out
    assert "Qwen3" in table and 'openai:gpt-99: {"price_in": 2.0' in table
    assert all(len(line) <= 80 for line in table.splitlines())
