"""The learner for every family: transformers' numbers, gradients and checkpoints."""

from __future__ import annotations

import random
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from tiny_model import TINY_FAMILIES, build_tiny_model
from transformers import AutoModelForCausalLM

from backends.embedded.layers import merge_lora, read_state_dict
from trainers.algorithms import network
from trainers.algorithms.batching import MicroBatch, minibatches
from trainers.algorithms.learner import ADAPTER, Learner, UpdateOptions
from trainers.algorithms.lora import Lora
from trainers.algorithms.network import score_tokens
from trainers.algorithms.sequences import TokenSequence

pytestmark = pytest.mark.usefixtures("one_thread")

UPDATE = UpdateOptions(learning_rate=1e-2, threads=1)
SHARED = 30
"""Tokens that the sequences of a group have in common."""


def made_up(seed: int = 0) -> list[TokenSequence]:
    """Two groups of three sequences; each has a common beginning and two sampled answers."""
    rng = random.Random(seed)
    sequences = []
    for index in range(6):
        group = index // 3
        shared = [random.Random(group).randrange(3, 500) for _ in range(SHARED)]
        ids = shared + [rng.randrange(3, 500) for _ in range(20 + index)]
        sampled = [*range(SHARED + 3, SHARED + 8), *range(len(ids) - 4, len(ids))]
        logprobs = [-rng.expovariate(0.5) for _ in sampled]
        sequences.append(
            TokenSequence(
                index,
                group,
                ids,
                sampled,
                logprobs,
                list(logprobs),
                0.1,
                index,
                [rng.uniform(-1, 1)] * len(sampled),
            )
        )
    return sequences


def one_batch() -> MicroBatch:
    [[batch]] = minibatches(made_up(), 1, 10**6, 0.0, "0")
    return batch


def by_transformers(model: Any, batch: MicroBatch) -> Tensor:
    """Return the log-probabilities of the batch's trained tokens, one sequence at a time."""
    packed, found = batch.packed, []
    for span in packed.spans:
        ids = torch.cat([packed.tokens[span.prefix], packed.tokens[span.own]])
        rows = model(ids[None]).logits[0].log_softmax(-1)
        at = packed.prediction_rows[span.predictions] - span.own.start
        place = at + (span.prefix.stop - span.prefix.start)
        found.append(rows[place, packed.targets[span.predictions]])
    return torch.cat(found)


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("name", TINY_FAMILIES)
def test_log_probabilities_and_gradients_are_those_of_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, recompute: bool
) -> None:
    monkeypatch.setattr(network, "SCORED_ROWS", 7)
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES[name])
    model, learner, batch = (
        AutoModelForCausalLM.from_pretrained(folder),
        Learner(folder),
        one_batch(),
    )
    scores = score_tokens(learner.weights(), learner.architecture, batch.packed, recompute)
    expected = by_transformers(model, batch)
    torch.testing.assert_close(scores.logprobs, expected, rtol=0, atol=1e-4)
    factors = torch.randn(len(expected), generator=torch.Generator().manual_seed(0))
    torch.autograd.backward((scores.logprobs * factors).sum())
    torch.autograd.backward((expected * factors).sum())
    trained = dict(model.named_parameters())
    assert trained.keys() == learner.weights().keys()
    for tensor, weight in trained.items():
        found = learner.weights()[tensor].grad
        assert found is not None and weight.grad is not None
        # A bias of the keys moves all scores of a query alike: its gradient is rounding only.
        assert (found - weight.grad).norm() <= 1e-4 * weight.grad.norm() + 1e-5, tensor


@pytest.mark.parametrize("lora", [None, Lora(4, 8.0)], ids=["all weights", "lora"])
@pytest.mark.parametrize("name", ["llama-biases-untied", "llama3-rope", "qwen2", "qwen3-biases"])
def test_a_step_changes_the_tensors_and_transformers_loads_them(
    tmp_path: Path, name: str, lora: Lora | None
) -> None:
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES[name])
    learner, before = Learner(folder, lora=lora), read_state_dict(folder)
    learner.update(made_up(), UPDATE)
    learner.save(tmp_path / "0001", {})
    after = read_state_dict(tmp_path / "0001")
    assert after.keys() == before.keys()
    changed = {tensor for tensor in after if not torch.equal(after[tensor], before[tensor])}
    matrices = {tensor for tensor in after if ".layers." in tensor and after[tensor].ndim == 2}
    assert changed == (matrices if lora else after.keys())
    # The same step with recomputed activations gives the same weights.
    other = Learner(folder, lora=lora)
    other.update(made_up(), replace(UPDATE, gradient_checkpointing=True))
    for tensor, value in other.state().items():
        torch.testing.assert_close(value, after[tensor], rtol=0, atol=1e-6)
    model, batch = AutoModelForCausalLM.from_pretrained(tmp_path / "0001"), one_batch()
    assert next(model.parameters()).dtype == torch.float32
    with torch.no_grad():
        ours = score_tokens(after, learner.architecture, batch.packed).logprobs
        torch.testing.assert_close(ours, by_transformers(model, batch), rtol=0, atol=1e-4)
    if lora:
        merged = merge_lora(before, tmp_path / "0001" / ADAPTER)
        for tensor, value in merged.items():
            torch.testing.assert_close(value, after[tensor], rtol=0, atol=1e-6)


def test_shards_of_a_base_model_are_not_left_beside_a_checkpoint(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES["llama"])
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="50KB")
    (folder / "original").mkdir()
    for name in ("pytorch_model.bin", "tiny.gguf", "original/consolidated.00.pth"):
        (folder / name).write_bytes(b"weights")
    learner = Learner(folder)
    learner.save(tmp_path / "0001", {})
    found = {path.name for path in (tmp_path / "0001").iterdir()}
    assert {"model.safetensors", "tokenizer.json", "config.json"} <= found
    assert not any("index" in name or name.endswith((".bin", ".gguf")) for name in found)
    assert "original" not in found
    for tensor, value in read_state_dict(tmp_path / "0001").items():
        assert value.dtype == torch.float32
        assert torch.equal(value, model.get_parameter(tensor).float())
