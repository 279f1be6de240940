"""Layers of a model: the weights of a checkpoint, fused for sampling, LoRA adapters, norm, RoPE.

The learner shares RMSNorm, RoPE (rotary position embedding, Su et al. 2021, arXiv:2104.09864) and
the setting of threads; it has other weights, with gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import BaseModel, Field, JsonValue, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from arena.core.errors import UsageError
from arena.core.text import first_fault
from backends.embedded.architecture import (
    ADAPTER,
    ADAPTER_FILE,
    BASE,
    Architecture,
    adapter_base,
    read_json_object,
    weight_files,
    weights_digest,
)

StateDict = Mapping[str, Tensor]
"""Weights under transformers' names. Beside NAME.weight there may be NAME.lora_A [rank, inputs] and
NAME.lora_B [outputs, rank], which holds the scale: then the matrix is W + B A."""


TORCH_THREADS = torch.get_num_threads()
"""Torch's own number, by affinity and OMP_NUM_THREADS: samplers change that of new threads."""


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Compute with this number of threads: sums are equal to the bit only for equal numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def update_threads(width: int) -> int:
    """Return the threads for training a model of this width, within TORCH_THREADS.

    Small models get a fixed number, so that the same run gives the same bits on most machines.
    """
    wanted = 1 if width <= 64 else 2 if width <= 512 else 256
    return min(wanted, TORCH_THREADS)


def chosen_device(name: str) -> torch.device:
    """Return the device of this name; "auto" is CUDA where torch finds it."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def rms_norm(x: Tensor, weight: Tensor, architecture: Architecture) -> Tensor:
    """Return x / sqrt(mean(x^2) + epsilon) * weight over the last axis (Zhang & Sennrich 2019)."""
    return F.rms_norm(x, (x.shape[-1],), weight, architecture.epsilon)


def rope_angles(architecture: Architecture, positions: Tensor) -> Tensor:
    """Return angle (p, j) = p * frequency j in radians: float64 [positions, head_dim / 2].

    Frequency j is theta^(-2j / head_dim), scaled as in Llama 3.1 if the architecture says so. In
    float64, so that all devices compute the same angles, and on the device of the positions: a copy
    of them would wait for it.
    """
    head_dim, scaling = architecture.head_dim, architecture.scaling
    # exponents: 2j / head_dim, shape [head_dim / 2].
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    frequencies: Tensor = architecture.theta**-exponents
    if scaling is not None:
        # Rotations within the original context: n_j = context / wavelength = context f_j / 2 pi.
        rotations = scaling.original_context * frequencies / (2 * math.pi)
        # Pairs with many rotations (n_j >= high) encode short distances and keep their frequency;
        # those with few (n_j <= low) are stretched by `factor`; the blend is linear between them:
        #     s_j = clip((n_j - low) / (high - low), 0, 1)
        #     f'_j = s_j f_j + (1 - s_j) f_j / factor
        low, high = scaling.low_freq_factor, scaling.high_freq_factor
        kept = ((rotations - low) / (high - low)).clip(0, 1)
        frequencies = kept * frequencies + (1 - kept) * frequencies / scaling.factor
    return torch.outer(positions.double(), frequencies.to(positions.device))


MAX_LORA_RANK = 4096
"""A larger rank exceeds the width of the models, so it is a fault of the file."""


class Projection(NamedTuple):
    """A linear layer, x W^T + b."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor | None  # [outputs]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the result in the type of x; the products have the type of the weights."""
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias).to(x.dtype)


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Weights of one layer; matrices that read the same input are concatenated."""

    attention_norm: Tensor  # [width]
    qkv: Projection  # [(heads + 2 kv_heads) head_dim, width]
    qk_norm: Tensor | None  # [heads + kv_heads, head_dim]: of the queries' heads, then the keys'
    attention_out: Projection  # [width, heads head_dim]
    mlp_norm: Tensor  # [width]
    gate_up: Projection  # [2 inner, width]
    down: Projection  # [width, inner]


@dataclass(frozen=True, slots=True, eq=False)
class ModelWeights:
    """Weights of a whole model. They are never changed: a request keeps those it started with."""

    embedding: Tensor  # [vocabulary, width]
    head: Projection  # [vocabulary, width]; the embedding itself if tied
    norm: Tensor  # [width]
    layers: tuple[LayerWeights, ...]


def read_state_dict(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint, with its adapter added if it consists of one.

    Raises UsageError without any, for a damaged file, for one that the index names in vain, and for
    an adapter whose base model has changed.
    """
    if base := adapter_base(folder):
        if weights_digest(base.folder) != base.sha256:
            raise UsageError(
                f"{folder}: its adapter was trained on other weights than those in {base.folder}; "
                f"restore them, or name a folder with the same weights in {folder / BASE}"
            )
        return merged(adapt(read_state_dict(base.folder), folder / ADAPTER))
    state: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            state |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise UsageError(
                f"{path}: cannot read its tensors ({error}); copy or download the file again"
            ) from None
    return state


class ConvertedWeights(Mapping[str, Tensor]):
    """Copies of weights, in float32 on a device, made when they are read: one is in memory."""

    def __init__(self, state: StateDict, device: torch.device) -> None:
        self._state = state
        self._device = device

    def __getitem__(self, name: str) -> Tensor:
        tensor = self._state[name].detach()
        return tensor.to(self._device, torch.float32, copy=True).contiguous()

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def fuse_weights(
    state: StateDict,
    architecture: Architecture,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> ModelWeights:
    """Copy weights to a device and concatenate them for the forward pass.

    Matrices get the type `dtype`; norms and the embedding are float32. Names are those of
    transformers. Raises UsageError for a missing or unknown tensor, and for one whose shape differs
    from config.json.
    """
    architecture.check_shapes({name: tuple(tensor.shape) for name, tensor in state.items()})
    weights = ConvertedWeights(state, device)
    layers = tuple(
        _fuse_layer(weights, f"model.layers.{number}", architecture, dtype)
        for number in range(architecture.layers)
    )
    embedding = weights["model.embed_tokens.weight"]
    head = embedding if architecture.tied else weights["lm_head.weight"]
    return ModelWeights(
        embedding, Projection(head.to(dtype), None), weights["model.norm.weight"], layers
    )


def _fuse_layer(
    weights: ConvertedWeights, layer: str, architecture: Architecture, dtype: torch.dtype
) -> LayerWeights:
    rotated_heads = {"q": architecture.heads, "k": architecture.kv_heads}

    def qkv(kind: str) -> Tensor:
        # RoPE does not apply to values.
        rotated = [
            _interleave_halves(weights[f"{layer}.self_attn.{part}_proj.{kind}"], heads)
            for part, heads in rotated_heads.items()
        ]
        return torch.cat([*rotated, weights[f"{layer}.self_attn.v_proj.{kind}"]]).to(dtype)

    def fuse(*names: str) -> Projection:
        matrices = [weights[f"{layer}.{name}.weight"] for name in names]
        return Projection(torch.cat(matrices).to(dtype), None)

    norms = [
        _interleave_halves(weights[f"{layer}.self_attn.{part}_norm.weight"], 1).expand(heads, -1)
        for part, heads in rotated_heads.items()
        if architecture.head_norms
    ]
    return LayerWeights(
        attention_norm=weights[f"{layer}.input_layernorm.weight"],
        qkv=Projection(qkv("weight"), qkv("bias") if architecture.qkv_bias else None),
        qk_norm=torch.cat(norms) if norms else None,
        attention_out=fuse("self_attn.o_proj"),
        mlp_norm=weights[f"{layer}.post_attention_layernorm.weight"],
        gate_up=fuse("mlp.gate_proj", "mlp.up_proj"),
        down=fuse("mlp.down_proj"),
    )


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


def merged(state: StateDict) -> dict[str, Tensor]:
    """Return the weights with adapters added, W + B A (Hu et al. 2021); others are not copied."""
    whole = {name: tensor for name, tensor in state.items() if ".lora_" not in name}
    for name, down in state.items():
        stem, is_lora_a, _ = name.partition(".lora_A")
        if is_lora_a:
            weight = f"{stem}.weight"
            whole[weight] = state[weight].float() + state[f"{stem}.lora_B"] @ down
    return whole


def adapt(state: StateDict, folder: Path) -> dict[str, Tensor]:
    """Return the weights beside the matrices of a PEFT LoRA adapter, see `StateDict`.

    The scale is lora_alpha / r, or lora_alpha / sqrt(r) with `use_rslora`. Raises UsageError for a
    folder without such an adapter, one without tensors, or one that does not fit the model.
    """
    try:
        config = AdapterConfig.model_validate(read_json_object(folder / "adapter_config.json"))
        adapter = load_file(folder / ADAPTER_FILE)
    except ValidationError as error:
        raise UsageError(f"{folder}: adapter_config.json: {first_fault(error)}") from None
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{folder}: cannot read a PEFT adapter ({error})") from None
    if not adapter:
        raise UsageError(f"{folder}: the adapter has no tensors")
    adapted = dict(state)
    pairs = {name: name.replace(".lora_A", ".lora_B") for name in adapter if ".lora_A" in name}
    if unknown := [name for name in adapter if name not in pairs and name not in pairs.values()]:
        raise UsageError(f"{folder}: unknown tensor '{unknown[0]}'")
    for name, other_name in pairs.items():
        # A [rank, inputs], B [outputs, rank].
        tensor, other = adapter[name], adapter.get(other_name)
        stem = name.removeprefix("base_model.model.").partition(".lora_A")[0]
        target = f"{stem}.weight"
        # The rank in the configuration sets the scale, so it must be that of the tensors.
        if other is None or target not in state or (
            (*other.shape, *tensor.shape)
            != (state[target].shape[0], config.r, config.r, state[target].shape[-1])
        ):  # fmt: skip
            raise UsageError(f"{folder}: '{name}' does not fit this model with r={config.r}")
        down, up = tensor.float(), config.scale * other.float()
        if not (down.isfinite().all() and up.isfinite().all()):
            raise UsageError(f"{folder}: '{name}' makes weights that are not finite numbers")
        if ".layers." in stem:
            adapted |= {f"{stem}.lora_A": down, f"{stem}.lora_B": up}
        else:  # The embedding and the head are read in other places than matrices of layers.
            adapted[target] = state[target].float() + up @ down
    return adapted
