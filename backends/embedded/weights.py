"""A Qwen3 checkpoint in the Hugging Face format: its shape, weights, and LoRA adapters on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from arena.core.errors import UsageError

State = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """What config.json says of a Qwen3 model."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    epsilon: float
    theta: float
    tied: bool


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights; those that read the same input are joined."""

    before_attention: Tensor  # [width]
    qkv: Tensor  # [(heads + 2 kv_heads) head_dim, width]
    head_norm: Tensor  # [heads + kv_heads, head_dim]: of the queries' heads, then the keys'
    out: Tensor  # [width, heads head_dim]
    before_mlp: Tensor  # [width]
    gate_up: Tensor  # [2 inner, width]
    down: Tensor  # [width, inner]


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A whole model's weights, never changed once made: a request keeps those it started with."""

    embedding: Tensor  # [vocabulary, width]
    head: Tensor  # [vocabulary, width]; the embedding itself if tied
    norm: Tensor  # [width]
    layers: tuple[Layer, ...]


def read_config(folder: Path) -> dict[str, Any]:
    """The checkpoint's config.json. Raises UsageError if there is none, or not of a Qwen3."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: no checkpoint can be read here ({error})") from None
    if config.get("model_type") != "qwen3" or config.get("attention_bias"):
        raise UsageError(f"{folder}: model_type={config.get('model_type')!r}; only qwen3 is known")
    if config.get("use_sliding_window"):
        raise UsageError(f"{folder}: sliding-window attention is not known")
    return config


def read_shape(config: Mapping[str, Any]) -> Shape:
    """The numbers of config.json that the forward pass needs."""
    heads = config["num_attention_heads"]
    # transformers 5 keeps RoPE's base in a group of its own.
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", "default") != "default":
        raise UsageError(f"rope_type={rope['rope_type']!r}: only the default RoPE is known")
    return Shape(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=heads,
        kv_heads=config["num_key_value_heads"],
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        vocabulary=config["vocab_size"],
        context=config["max_position_embeddings"],
        epsilon=config["rms_norm_eps"],
        theta=rope.get("rope_theta") or config.get("rope_theta") or 10_000.0,
        tied=config.get("tie_word_embeddings", False),
    )


def read_state(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder's safetensors files. Raises UsageError if there is none."""
    state: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        state |= load_file(path)
    if not state:
        raise UsageError(f"{folder}: has no *.safetensors")
    return state


def fuse(state: State, shape: Shape, device: torch.device) -> Weights:
    """Weights under the names of transformers' Qwen3ForCausalLM, copied and joined for sampling.

    Raises UsageError for a tensor that is missing.
    """

    def get(name: str) -> Tensor:
        if name not in state:
            raise UsageError(f"the checkpoint has no tensor '{name}'")
        return state[name].detach().to(device, torch.float32, copy=True).contiguous()

    def layer(number: int) -> Layer:
        at = f"model.layers.{number}"
        attention, mlp = f"{at}.self_attn", f"{at}.mlp"
        parts = {"q": shape.heads, "k": shape.kv_heads}
        turned = [_paired(get(f"{attention}.{p}_proj.weight"), n) for p, n in parts.items()]
        norms = [_paired(get(f"{attention}.{p}_norm.weight"), 1).expand(n, -1)
                 for p, n in parts.items()]  # fmt: skip
        return Layer(
            before_attention=get(f"{at}.input_layernorm.weight"),
            qkv=torch.cat([*turned, get(f"{attention}.v_proj.weight")]),
            head_norm=torch.cat(norms),
            out=get(f"{attention}.o_proj.weight"),
            before_mlp=get(f"{at}.post_attention_layernorm.weight"),
            gate_up=torch.cat([get(f"{mlp}.gate_proj.weight"), get(f"{mlp}.up_proj.weight")]),
            down=get(f"{mlp}.down_proj.weight"),
        )

    embedding = get("model.embed_tokens.weight")
    head = embedding if shape.tied else get("lm_head.weight")
    layers = tuple(layer(number) for number in range(shape.layers))
    return Weights(embedding, head, get("model.norm.weight"), layers)


def _paired(weight: Tensor, heads: int) -> Tensor:
    """Reorder each head's dimensions so that the two which RoPE turns together are neighbours.

    Queries and keys are reordered alike, which leaves their products as they are; the rotation is
    then one multiplication by complex numbers.
    """
    pairs = weight.view(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return pairs.transpose(1, 2).reshape(weight.shape)


def merge_lora(state: State, folder: Path) -> dict[str, Tensor]:
    """The state with a PEFT LoRA adapter added: W + scale * B A (Hu et al. 2021).

    The scale is lora_alpha / r, or / sqrt(r) with `use_rslora`. Raises UsageError for a folder
    that holds no such adapter, or one that does not fit.
    """
    try:
        config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        adapter = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: no PEFT adapter can be read here ({error})") from None
    if config.get("peft_type", "LORA") != "LORA" or config.get("use_dora"):
        raise UsageError(f"{folder}: only plain LoRA adapters are known")
    if config.get("rank_pattern") or config.get("alpha_pattern"):
        raise UsageError(f"{folder}: rank_pattern and alpha_pattern are not known")
    rank = config["r"]
    scale = config["lora_alpha"] / (rank**0.5 if config.get("use_rslora") else rank)
    merged = dict(state)
    for name, down in adapter.items():
        stem, found, _ = name.partition(".lora_A")
        target = stem.removeprefix("base_model.model.") + ".weight"
        if not found:
            if ".lora_B" not in name:
                raise UsageError(f"{folder}: what '{name}' means is not known")
            continue
        up = adapter.get(name.replace(".lora_A", ".lora_B"))
        if up is None or target not in state or state[target].shape != (len(up), down.shape[1]):
            raise UsageError(f"{folder}: '{name}' does not fit this model")
        merged[target] = state[target].float() + scale * (up.float() @ down.float())
    return merged
