"""A Qwen3 checkpoint in the Hugging Face format: shape, weights, and LoRA adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from arena.core.errors import UsageError

StateDict = Mapping[str, Tensor]
MAX_LORA_RANK = 4096
"""A larger rank exceeds the width of the models, so it is a fault of the file."""


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
        config: dict[str, JsonValue] = _read_object(folder / "config.json")
    except (OSError, ValueError, RecursionError) as error:
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
        raise UsageError(f"config.json: {_first_fault(error)}") from None
    if shape.rope_type != "default":
        raise UsageError(f"rope_type={shape.rope_type!r}: only the default RoPE is supported")
    return shape


def read_state_dict(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of the folder's safetensors files.

    Raises UsageError without any, and for a damaged file.
    """
    state: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            state |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise UsageError(
                f"{path}: cannot read its tensors ({error}); copy or download the file again"
            ) from None
    if not state:
        raise UsageError(f"{folder}: has no *.safetensors")
    return state


def fuse_weights(state: StateDict, shape: ModelShape, device: torch.device) -> ModelWeights:
    """Copy weights to a device in float32 and concatenate them for the forward pass.

    Names are those of transformers' Qwen3ForCausalLM. Raises UsageError for a missing tensor, and
    for one whose shape differs from config.json.
    """
    try:
        return _fuse_weights(state, shape, device)
    except torch.OutOfMemoryError:  # A RuntimeError too, but no fault of the checkpoint.
        raise
    except RuntimeError as error:  # By torch: matrices that do not fit each other.
        reason = str(error).partition("\n")[0]
        raise UsageError(f"the checkpoint's tensors do not fit its config.json: {reason}") from None


def _fuse_weights(state: StateDict, shape: ModelShape, device: torch.device) -> ModelWeights:
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


class AdapterConfig(BaseModel):
    """The fields of PEFT's adapter_config.json that a merge needs."""

    r: int = Field(ge=1, le=MAX_LORA_RANK)
    lora_alpha: float = Field(allow_inf_nan=False)
    peft_type: Literal["LORA"] = "LORA"
    use_rslora: bool = False
    # Variants that are not supported; None, False and {} are PEFT's defaults.
    use_dora: Literal[False] | None = None
    rank_pattern: dict[str, JsonValue] | None = Field(None, max_length=0)
    alpha_pattern: dict[str, JsonValue] | None = Field(None, max_length=0)

    @property
    def scale(self) -> float:
        return self.lora_alpha / (self.r**0.5 if self.use_rslora else self.r)


def merge_lora(state: StateDict, folder: Path) -> dict[str, Tensor]:
    """Return the weights with a PEFT LoRA adapter added: W + scale * B A (Hu et al. 2021).

    The scale is lora_alpha / r, or lora_alpha / sqrt(r) with `use_rslora`. Raises UsageError for a
    folder without such an adapter, one without tensors, or one that does not fit the model.
    """
    try:
        config = AdapterConfig.model_validate(_read_object(folder / "adapter_config.json"))
        adapter = load_file(folder / "adapter_model.safetensors")
    except ValidationError as error:
        raise UsageError(f"{folder}: adapter_config.json: {_first_fault(error)}") from None
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        raise UsageError(f"{folder}: cannot read a PEFT adapter ({error})") from None
    if not adapter:
        raise UsageError(f"{folder}: the adapter has no tensors")
    merged = dict(state)
    for name, down in adapter.items():  # A [rank, inputs] and B [outputs, rank]
        stem, is_lora_a, _ = name.partition(".lora_A")
        target = stem.removeprefix("base_model.model.") + ".weight"
        if not is_lora_a:
            if ".lora_B" not in name or name.replace(".lora_B", ".lora_A") not in adapter:
                raise UsageError(f"{folder}: unknown tensor '{name}'")
            continue
        up = adapter.get(name.replace(".lora_A", ".lora_B"))
        # The rank in the configuration sets the scale, so it must be that of the tensors.
        fits = up is not None and target in state and (
            (*up.shape, *down.shape)
            == (state[target].shape[0], config.r, config.r, state[target].shape[-1])
        )  # fmt: skip
        if up is None or not fits:
            raise UsageError(f"{folder}: '{name}' does not fit this model with r={config.r}")
        merged[target] = state[target].float() + config.scale * (up.float() @ down.float())
        if not merged[target].isfinite().all():
            raise UsageError(f"{folder}: '{name}' makes weights that are not finite numbers")
    return merged


def _read_object(path: Path) -> dict[str, JsonValue]:
    """Return the JSON object in a file. Raises OSError, ValueError, RecursionError."""
    value = json.loads(path.read_text("utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return value


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
