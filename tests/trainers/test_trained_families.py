"""The learner for every family: transformers' numbers, gradients and checkpoints."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import TINY_FAMILIES, build_tiny_model, same
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM

from arena.core.errors import ArenaError, UsageError
from backends.embedded.architecture import ADAPTER
from backends.embedded.layers import adapt, merged, read_state_dict
from trainers.algorithms import network
from trainers.algorithms.batching import MicroBatch, minibatches
from trainers.algorithms.checkpoint_files import merge_checkpoint
from trainers.algorithms.learner import Learner
from trainers.algorithms.lora import Lora
from trainers.algorithms.network import PackedSequences, SequenceSpan, score_tokens
from trainers.config.config import UpdateOptions
from trainers.trajectory import TokenSequence

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
                [rng.uniform(-1, 1)] * len(sampled),
            )
        )
    return sequences


def one_batch() -> MicroBatch:
    [[batch]] = minibatches(made_up(), 1, 10**6, "0")
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
    monkeypatch.setattr(network, "SCORED_LOGITS", 7 * 512)
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
@pytest.mark.parametrize("name", ["llama-untied", "llama3-rope", "qwen2", "qwen3-untied"])
def test_a_step_changes_the_tensors_and_transformers_loads_them(
    tmp_path: Path, name: str, lora: Lora | None
) -> None:
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES[name])
    learner, before = Learner(folder, lora=lora), read_state_dict(folder)
    learner.update(made_up(), UPDATE)
    learner.save(tmp_path / "0001", {})
    after = read_state_dict(tmp_path / "0001")
    assert (tmp_path / "0001" / "model.safetensors").exists() is (lora is None)
    assert after.keys() == before.keys()
    changed = {tensor for tensor in after if not torch.equal(after[tensor], before[tensor])}
    matrices = {tensor for tensor in after if ".layers." in tensor and after[tensor].ndim == 2}
    assert changed == (matrices if lora else after.keys())
    # The same step with recomputed activations gives the same weights.
    other = Learner(folder, lora=lora)
    other.update(made_up(), replace(UPDATE, gradient_checkpointing=True))
    for tensor, value in other.merged().items():
        torch.testing.assert_close(value, after[tensor], rtol=0, atol=1e-6)
    merge_checkpoint(tmp_path / "0001")
    assert same(read_state_dict(tmp_path / "0001"), after)
    model, batch = AutoModelForCausalLM.from_pretrained(tmp_path / "0001"), one_batch()
    assert next(model.parameters()).dtype == torch.float32
    with torch.no_grad():
        ours = score_tokens(after, learner.architecture, batch.packed).logprobs
        torch.testing.assert_close(ours, by_transformers(model, batch), rtol=0, atol=1e-4)
    if lora:
        assert same(merged(adapt(before, tmp_path / "0001" / ADAPTER)), after)


def gradients(learner: Learner, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    batch = one_batch()
    factors = torch.randn(len(batch.targets), generator=torch.Generator().manual_seed(0))
    scores = score_tokens(weights, learner.architecture, batch.packed)
    named = learner.trained
    found = torch.autograd.grad((scores.logprobs * factors).sum(), list(named.values()))
    return dict(zip(named, found, strict=True)) | {"logprobs": scores.logprobs.detach()}


def storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the largest tensor that an operation makes, and the most rows by their length."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements = 0
        self.rows: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {storage(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        for made in tree_leaves(result):
            # Views, such as the transpose of a matrix, take no memory.
            if isinstance(made, Tensor) and made.ndim and storage(made) not in known:
                self.elements = max(self.elements, made.numel())
                length = made.shape[-1]
                self.rows[length] = max(self.rows.get(length, 0), made.numel() // (length or 1))
        return result


def test_an_adapter_is_added_to_the_output_and_not_to_the_matrix(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES["qwen3-untied"])
    learner = Learner(folder, lora=Lora(4, 8.0))
    learner.update(made_up(), UPDATE)  # B is not 0 any more.
    whole = dict(learner._frozen)
    for name in learner.trained:
        stem, is_a, _ = name.partition(".lora_A")
        if is_a:
            up, down = learner.trained[f"{stem}.lora_B"], learner.trained[name]
            whole[f"{stem}.weight"] = whole[f"{stem}.weight"] + 2.0 * (up @ down)
    expected, found = gradients(learner, whole), gradients(learner, learner.weights())
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)
    # No operation of either pass makes a matrix of the size of W.
    largest = max(tensor.numel() for name, tensor in learner._frozen.items() if ".layers." in name)
    batch = one_batch().packed
    rows = PackedSequences(
        batch.tokens[:4], batch.positions[:4], [SequenceSpan(slice(0, 0), slice(0, 4), True,
        slice(0, 1))], torch.tensor([3]), torch.tensor([5]),
    )  # fmt: skip
    with LargestTensor() as made:
        scores = score_tokens(learner.weights(), learner.architecture, rows)
        torch.autograd.backward(scores.logprobs.sum())
    assert made.elements < largest


def test_an_adapter_on_another_base_model_is_refused(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES["llama"])
    learner = Learner(folder, lora=Lora(4, 8.0))
    learner.update(made_up(), UPDATE)
    learner.save(tmp_path / "0001", {})
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + b"\0\0\1\0")
    with pytest.raises(UsageError, match="was trained on other weights than those in"):
        read_state_dict(tmp_path / "0001")
    with pytest.raises(ArenaError, match="was trained on other weights than those in"):
        Learner(folder, lora=Lora(4, 8.0)).load(tmp_path / "0001")
    folder.rename(tmp_path / "moved")
    with pytest.raises(UsageError, match=r"not in .*tiny any more; name its new folder in"):
        read_state_dict(tmp_path / "0001")
    (tmp_path / "0001" / "base.json").write_text("{}")
    with pytest.raises(UsageError, match=r"base.json: cannot be read"):
        read_state_dict(tmp_path / "0001")


@pytest.mark.parametrize("tree", [False, True], ids=["causal", "tree"])
def test_attention_without_a_fused_kernel_takes_some_queries_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tree: bool
) -> None:
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES["llama"])
    learner, length = Learner(folder), 400
    heads = learner.architecture.heads
    assert heads > learner.architecture.kv_heads
    sees = torch.ones(length, length, dtype=torch.bool).tril() if tree else None
    span = SequenceSpan(slice(0, 0), slice(0, length), True, slice(0, length), sees)
    ids = torch.randint(3, 500, (length,), generator=torch.Generator().manual_seed(0))
    packed = PackedSequences(ids, torch.arange(length), [span], torch.arange(length), ids)

    def found() -> tuple[list[Tensor], int]:
        with LargestTensor() as made:
            logprobs = score_tokens(learner.weights(), learner.architecture, packed).logprobs
            tensors = list(learner.weights().values())
            return [logprobs, *torch.autograd.grad(logprobs.sum(), tensors)], made.elements

    monkeypatch.setattr(network, "SCORED_LOGITS", 30 * 600)
    expected, _ = found()
    with sdpa_kernel(SDPBackend.MATH):
        _, unbounded = found()
        monkeypatch.setattr(network, "ATTENTION_ROWS", 32)
        values, bounded = found()
    assert unbounded >= heads * length**2
    assert bounded <= max(heads * length * 32, length**2)
    for one, other in zip(values, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
