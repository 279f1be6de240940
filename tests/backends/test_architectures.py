"""Checkpoints of every family: distributions equal transformers', others are refused in a line."""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_model import LLAMA3_ROPE, TINY_FAMILIES, build_tiny_model
from transformers import AutoModelForCausalLM

from arena.core.errors import UsageError
from backends.embedded.architecture import parse_architecture, read_architecture
from backends.embedded.layers import read_state_dict, rope_angles
from backends.embedded.sampler import GeneratedToken, Sampler, SamplingParams

PROMPT = [random.Random(1).randrange(3, 500) for _ in range(150)]
SCORED = SamplingParams(seed=3, max_tokens=4, top_logprobs=600)
LLAMA: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 600,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "hidden_act": "silu",
}  # fmt: skip
"""The fields of config.json that every version of transformers writes."""


async def generate(sampler: Sampler, prompt: list[int]) -> list[GeneratedToken]:
    async with aclosing(sampler.generate(prompt, SCORED)) as stream:
        return [token async for token in stream]


def scored_by(folder: Path, *prompts: list[int]) -> list[list[GeneratedToken]]:
    """Answer all prompts at the same time."""

    async def run() -> list[list[GeneratedToken]]:
        sampler = Sampler(folder, threads=1)
        try:
            return list(await asyncio.gather(*(generate(sampler, prompt) for prompt in prompts)))
        finally:
            await sampler.close()

    return asyncio.run(run())


def distributions(generated: list[GeneratedToken]) -> Any:
    """Return the log-probabilities [token, vocabulary] of the answer's positions."""
    rows = [{top.id: top.logprob for top in token.top} for token in generated]
    return torch.tensor([[row[token] for token in range(600)] for row in rows])


def expected_of(model: Any, generated: list[GeneratedToken], prompt: list[int]) -> Any:
    """Return the same as transformers computes it."""
    ids = torch.tensor(prompt + [token.id for token in generated])
    with torch.inference_mode():
        return model(ids[None]).logits[0, len(prompt) - 1 : -1].log_softmax(-1)


@pytest.mark.parametrize("name", TINY_FAMILIES)
def test_the_sampler_has_the_distributions_of_transformers(tmp_path: Path, name: str) -> None:
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES[name])
    model = AutoModelForCausalLM.from_pretrained(folder)
    # At lengths beside those of blocks; beside other requests, which must not change a bit.
    prompts = [PROMPT, *(PROMPT[7 : 7 + length] for length in (1, 16, 17, 133))]
    [alone], together = scored_by(folder, PROMPT), scored_by(folder, *prompts)
    assert torch.equal(distributions(together[0]), distributions(alone))
    for prompt, generated in zip(prompts, together, strict=True):
        expected = expected_of(model, generated, prompt)
        torch.testing.assert_close(distributions(generated), expected, rtol=0, atol=1e-4)
    # The description names every tensor, and no other one.
    shapes = {name: tuple(tensor.shape) for name, tensor in read_state_dict(folder).items()}
    architecture = read_architecture(folder)
    assert shapes == architecture.tensor_shapes()
    assert architecture.parameters == sum(tensor.numel() for tensor in model.parameters())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_files_of_any_precision_may_be_in_shards(tmp_path: Path, dtype: str) -> None:
    whole = build_tiny_model(tmp_path / "whole", **TINY_FAMILIES["llama-untied"])
    model: Any = AutoModelForCausalLM.from_pretrained(whole, dtype=getattr(torch, dtype))
    shards = shutil.copytree(whole, tmp_path / "shards", ignore=lambda *_: ["model.safetensors"])
    model.save_pretrained(shards, max_shard_size="100KB")
    assert len(list(shards.glob("*.safetensors"))) > 2
    # A file beside them that the index does not name is not a part of the model.
    save_file({"model.norm.weight": torch.zeros(64)}, shards / "consolidated.safetensors")
    state = read_state_dict(shards)
    assert {tensor.dtype for tensor in state.values()} == {getattr(torch, dtype)}
    [generated] = scored_by(shards, PROMPT[:40])
    expected = expected_of(model.to(torch.float32), generated, PROMPT[:40])
    torch.testing.assert_close(distributions(generated), expected, rtol=0, atol=1e-4)
    next(shards.glob("model-*2-*.safetensors")).unlink()
    with pytest.raises(UsageError, match=r"index.json: model-.* is missing; download"):
        read_state_dict(shards)


def test_rope_is_read_as_transformers_4_and_5_write_it() -> None:
    ours = parse_architecture(LLAMA | {"rope_parameters": LLAMA3_ROPE})
    scaling = {name: value for name, value in LLAMA3_ROPE.items() if name != "rope_theta"}
    assert parse_architecture(LLAMA | {"rope_theta": 1e4, "rope_scaling": scaling}) == ours
    older = {"type" if name == "rope_type" else name: value for name, value in scaling.items()}
    assert parse_architecture(LLAMA | {"rope_theta": 1e4, "rope_scaling": older}) == ours
    assert ours.scaling is not None and ours.scaling.original_context == 64
    plain = parse_architecture(LLAMA | {"rope_theta": 1e4, "rope_scaling": None})
    assert plain == parse_architecture(LLAMA) and plain.scaling is None
    # The highest frequencies are kept, the lowest ones divided by the factor, others between.
    ratios = (rope_angles(plain, torch.ones(1)) / rope_angles(ours, torch.ones(1)))[0]
    assert ratios[0] == 1 and ratios[-1] == 8 and any(1.01 < ratio < 7.9 for ratio in ratios)


def test_fields_that_are_left_out_have_the_values_of_transformers() -> None:
    few = parse_architecture(LLAMA | {"num_key_value_heads": None, "head_dim": None})
    assert (few.kv_heads, few.head_dim, few.theta, few.tied) == (4, 16, 10_000.0, False)
    assert not (few.qkv_bias or few.head_norms)
    assert parse_architecture(LLAMA | {"model_type": "qwen2"}).qkv_bias
    assert parse_architecture(LLAMA | {"model_type": "qwen3"}).head_norms


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"model_type": "gpt2"}, "model_type='gpt2'"),
        ({"model_type": None}, "model_type=None"),
        ({"model_type": ["llama"]}, "model_type="),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type='yarn'"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"use_sliding_window": True}, "sliding-window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"attention_bias": True}, "attention_bias"),
        ({"mlp_bias": True}, "mlp_bias"),
    ],
)
def test_other_models_are_refused_with_the_list_of_what_works(
    changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(UsageError) as error:
        parse_architecture(LLAMA | changes, "models/other")
    text = str(error.value)
    assert text.startswith("models/other: ") and fault in text and "\n" not in text
    for family in ("Llama (llama)", "Qwen2 and Qwen2.5 (qwen2)", "Qwen3 (qwen3)"):
        assert family in text


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_attention_heads": 4, "num_key_value_heads": 3}, "multiple"),
        ({"head_dim": 15}, "head_dim"),
        ({"vocab_size": None}, "vocab_size"),
        ({"rope_parameters": LLAMA3_ROPE | {"factor": None}}, "factor"),
        ({"rope_parameters": LLAMA3_ROPE | {"high_freq_factor": 1.0}}, "high_freq_factor"),
    ],
)
def test_absurd_sizes_are_one_line(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(UsageError, match=place) as error:
        parse_architecture(LLAMA | changes)
    assert "\n" not in str(error.value)


def test_a_bias_that_the_config_does_not_mention_is_not_left_out(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES["llama"])
    path = folder / "model.safetensors"
    state = load_file(path)
    name = "model.layers.1.self_attn.q_proj.bias"
    # Frequencies of RoPE and a second copy of a tied head are in older files.
    frequencies = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    copied = {"lm_head.weight": state["model.embed_tokens.weight"].clone()}
    save_file(state | frequencies | copied, path, {"format": "pt"})
    asyncio.run(Sampler(folder).close())
    save_file(state | {name: torch.ones(64)}, path, {"format": "pt"})
    with pytest.raises(UsageError, match=f"not have: '{name}'"):
        Sampler(folder)


@pytest.mark.parametrize("text", ["{}", "[", '{"weight_map": {"a": "../a.safetensors"}}'])
def test_a_damaged_index_is_one_line(tmp_path: Path, text: str) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(UsageError, match=r"model\.safetensors\.index\.json"):
        read_state_dict(folder)
