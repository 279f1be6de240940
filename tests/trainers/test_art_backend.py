"""ART's own loop on the embedded backend: register, gather, train, log, delete and resume."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

if find_spec("art") is None:
    pytest.skip("openpipe-art is not installed", allow_module_level=True)

from tiny_model import build_tiny_model

from arena.core.errors import ArenaError, UsageError
from trainers.credit import Credit
from trainers.hosts.art.convert import ArtGroup, TrainableModel, from_art
from trainers.hosts.art.embedded_backend import EmbeddedBackend
from trainers.trajectory import token_sequences

pytestmark = pytest.mark.usefixtures("one_thread")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "art_kuhn.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script of the guide."""
    spec = importlib.util.spec_from_file_location("art_kuhn", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["art_kuhn"] = module
    spec.loader.exec_module(module)
    module.DEALS, module.GAMES = 2, 3  # type: ignore[attr-defined]
    return module


def small(folder: Path) -> Path:
    return build_tiny_model(
        folder, layers=1, width=32, heads=2, kv_heads=1, head_dim=16, inner=64, context=768
    )


def model_of(folder: Path) -> TrainableModel[Any, Any]:
    return TrainableModel(
        name="kuhn", project="arena", base_model="scratch", base_path=str(folder), report_metrics=[]
    )


def test_the_example_trains_logs_and_goes_on(example: ModuleType, tmp_path: Path) -> None:
    """In one go, or interrupted in between: the same games and the same weights."""
    for name in ("whole", "parts"):
        small(tmp_path / name / "base")
    assert len(asyncio.run(example.train(tmp_path / "whole", 2))) == 2
    for steps in (1, 2):
        assert len(asyncio.run(example.train(tmp_path / "parts", steps))) == 1
    hashes = []
    for name in ("whole", "parts"):
        output = tmp_path / name / ".art" / "arena" / "models" / "kuhn"
        assert len((output / "history.jsonl").read_text().splitlines()) == 2
        assert '"next_deal": 4' in (output / "state.json").read_text()
        kept = {path.name for path in (output / "checkpoints").iterdir()}
        assert "0002" in kept and len(kept) <= 2
        weights = (output / "checkpoints" / "0002" / "model.safetensors").read_bytes()
        hashes.append(hashlib.sha256(weights).hexdigest())
    assert hashes[0] == hashes[1]


def test_what_is_gathered_is_what_was_sampled(example: ModuleType, tmp_path: Path) -> None:
    async def run() -> None:
        backend = EmbeddedBackend(small(tmp_path / "base"), path=tmp_path, device="cpu")
        with pytest.raises(ArenaError, match="register a model first"):
            _ = backend.trainer
        model = model_of(tmp_path)
        await model.register(backend)
        assert model.get_inference_name() == model.inference_model_name == "kuhn@0"
        games = [await example.rollout(model, 0, number) for number in range(6)]
        group = ArtGroup(games)
        credited = Credit(scale=True).assign([from_art(group)])
        trained = token_sequences(credited, backend.trainer.sampler.chat_tokenizer)
        result = await backend.train(model, [group], learning_rate=1e-2, threads=1)
        tokens = sum(len(one.sampled_positions) for one in trained)
        assert result.metrics["tokens_trained"] == tokens
        assert result.step == await model.get_step() == 1
        assert "kuhn@1" in [card.id async for card in model.openai_client().models.list()]
        assert (model.get_inference_name(), model.get_inference_name(0)) == ("kuhn@1", "kuhn@0")
        with pytest.raises(UsageError, match="does not know colour"):
            await backend.train(model, [group], colour="red")
        with pytest.raises(UsageError, match="holds kuhn already"):
            await backend.register(model_of(tmp_path))
        with pytest.raises(NotImplementedError, match="arena pretrain"):
            backend._train_sft()
        await backend.close()

    asyncio.run(run())
