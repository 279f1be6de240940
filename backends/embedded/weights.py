"""A Qwen3 checkpoint in the Hugging Face format: shape, weights, and LoRA adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from safetensors.torch import load_file
from torch import Tensor

from arena.core.errors import UsageError

StateDict = Mapping[str, Tensor]


def _rope_alias(name: str, *others: str) -> AliasChoices:
    # transformers 5 renamed `rope_scaling` to `rope_parameters`.
    groups = ("rope_parameters", "rope_scaling")
    return AliasChoices(*(AliasPath(group, name) for group in groups), *others)


class ModelShape(BaseModel):
    """Hyperparameters of a Qwen3 model that the forward pass needs, read from config.json.

    The aliases are the names of transformers.
    """

    model_config = ConfigDict(frozen=True)

    layers: int = Field(validation_alias="num_hidden_layers")
    width: int = Field(validation_alias="hidden_size")
    heads: int = Field(validation_alias="num_attention_heads")
    kv_heads: int = Field(validation_alias="num_key_value_heads")
    head_dim: int
    vocabulary: int = Field(validation_alias="vocab_size")
    context: int = Field(validation_alias="max_position_embeddings")
    epsilon: float = Field(validation_alias="rms_norm_eps")
    """Of RMSNorm."""
    theta: float = Field(10_000.0, validation_alias=_rope_alias("rope_theta", "rope_theta"))
    """Base of the RoPE frequencies."""
    rope_type: str = Field("default", validation_alias=_rope_alias("rope_type"))
    tied: bool = Field(False, validation_alias="tie_word_embeddings")
    """The output head is the embedding matrix."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, config: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Treat null as absent, and derive the width of a head that is not given."""
        given: dict[str, JsonValue] = {
            name: value for name, value in config.items() if value is not None
        }
        width, heads = given.get("hidden_size"), given.get("num_attention_heads")
        if isinstance(width, int) and isinstance(heads, int) and heads > 0:
            given.setdefault("head_dim", width // heads)
        return given


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Weights of one layer; matrices that read the same input are concatenated."""

    attention_norm: Tensor  # [width]
    qkv: Tensor  # [(heads + 2 kv_heads) head_dim, width]
    qk_norm: Tensor  # [heads + kv_heads, head_dim]: of the queries' heads, then the keys'
    attention_out: Tensor  # [width, heads head_dim]
    mlp_norm: Tensor  # [width]
    gate_up: Tensor  # [2 inner, width]
    down: Tensor  # [width, inner]


@dataclass(frozen=True, slots=True, eq=False)
class ModelWeights:
    """Weights of a whole model. They are never changed: a request keeps those it started with."""

    embedding: Tensor  # [vocabulary, width]
    head: Tensor  # [vocabulary, width]; the embedding itself if tied
    norm: Tensor  # [width]
    layers: tuple[LayerWeights, ...]


def read_model_config(folder: Path) -> dict[str, JsonValue]:
    """Return the checkpoint's config.json. Raises UsageError unless it describes a Qwen3 model."""
    try:
        config: dict[str, JsonValue] = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: cannot read a checkpoint ({error})") from None
    model_type = config.get("model_type")
    if model_type != "qwen3" or config.get("attention_bias"):
        raise UsageError(f"{folder}: model_type={model_type!r}; only qwen3 is supported")
    if config.get("use_sliding_window"):
        raise UsageError(f"{folder}: sliding-window attention is not supported")
    return config


def parse_shape(config: Mapping[str, JsonValue]) -> ModelShape:
    """Return the hyperparameters in a config.json. Raises UsageError."""
    try:
        shape = ModelShape.model_validate(config)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise UsageError(f"config.json: {place}: {fault['msg']}") from None
    if shape.rope_type != "default":
        raise UsageError(f"rope_type={shape.rope_type!r}: only the default RoPE is supported")
    return shape


def read_state_dict(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of the folder's safetensors files. Raises UsageError without any."""
    state: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        state |= load_file(path)
    if not state:
        raise UsageError(f"{folder}: has no *.safetensors")
    return state


def fuse_weights(state: StateDict, shape: ModelShape, device: torch.device) -> ModelWeights:
    """Copy weights to a device in float32 and concatenate them for the forward pass.

    Names are those of transformers' Qwen3ForCausalLM. Raises UsageError for a missing tensor.
    """

    def get(name: str) -> Tensor:
        if name not in state:
            raise UsageError(f"the checkpoint has no tensor '{name}'")
        return state[name].detach().to(device, torch.float32, copy=True).contiguous()

    def layer(number: int) -> LayerWeights:
        prefix = f"model.layers.{number}"
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        rotated_heads = {"q": shape.heads, "k": shape.kv_heads}  # RoPE does not apply to values.
        qk = [
            _interleave_halves(get(f"{attention}.{part}_proj.weight"), heads)
            for part, heads in rotated_heads.items()
        ]
        norms = [
            _interleave_halves(get(f"{attention}.{part}_norm.weight"), 1).expand(heads, -1)
            for part, heads in rotated_heads.items()
        ]
        return LayerWeights(
            attention_norm=get(f"{prefix}.input_layernorm.weight"),
            qkv=torch.cat([*qk, get(f"{attention}.v_proj.weight")]),
            qk_norm=torch.cat(norms),
            attention_out=get(f"{attention}.o_proj.weight"),
            mlp_norm=get(f"{prefix}.post_attention_layernorm.weight"),
            gate_up=torch.cat([get(f"{mlp}.gate_proj.weight"), get(f"{mlp}.up_proj.weight")]),
            down=get(f"{mlp}.down_proj.weight"),
        )

    embedding = get("model.embed_tokens.weight")
    head = embedding if shape.tied else get("lm_head.weight")
    layers = tuple(layer(number) for number in range(shape.layers))
    return ModelWeights(embedding, head, get("model.norm.weight"), layers)


def _interleave_halves(weight: Tensor, heads: int) -> Tensor:
    """Reorder the dimensions of each head from (0 … h-1, h … 2h-1) to (0, h, 1, h+1, …).

    transformers rotates dimension i together with dimension h + i. After reordering both are
    neighbours, and RoPE is one multiplication by complex numbers. Queries and keys are reordered
    in the same way, so their dot products do not change.
    """
    # [heads * 2h, …] as [heads, 2, h, …]; swapping the axes 2 and h interleaves the halves.
    halves = weight.view(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)


def merge_lora(state: StateDict, folder: Path) -> dict[str, Tensor]:
    """Return the weights with a PEFT LoRA adapter added: W + scale * B A (Hu et al. 2021).

    The scale is lora_alpha / r, or lora_alpha / sqrt(r) with `use_rslora`. Raises UsageError for a
    folder without such an adapter, or one that does not fit the model.
    """
    try:
        config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        adapter = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: cannot read a PEFT adapter ({error})") from None
    if config.get("peft_type", "LORA") != "LORA" or config.get("use_dora"):
        raise UsageError(f"{folder}: only plain LoRA adapters are supported")
    if config.get("rank_pattern") or config.get("alpha_pattern"):
        raise UsageError(f"{folder}: rank_pattern and alpha_pattern are not supported")
    rank = config["r"]
    scale = config["lora_alpha"] / (rank**0.5 if config.get("use_rslora") else rank)
    merged = dict(state)
    for name, down in adapter.items():  # A [rank, inputs] and B [outputs, rank]
        stem, is_lora_a, _ = name.partition(".lora_A")
        target = stem.removeprefix("base_model.model.") + ".weight"
        if not is_lora_a:
            if ".lora_B" not in name:
                raise UsageError(f"{folder}: unknown tensor '{name}'")
            continue
        up = adapter.get(name.replace(".lora_A", ".lora_B"))
        if up is None or target not in state or state[target].shape != (len(up), down.shape[1]):
            raise UsageError(f"{folder}: '{name}' does not fit this model")
        merged[target] = state[target].float() + scale * (up.float() @ down.float())
    return merged
