"""The architecture of a checkpoint: one description, read from config.json, for all families.

Models of the Llama, Qwen2 and Qwen3 families have the same layers: RMSNorm, attention with RoPE and
grouped key heads, SwiGLU. They differ in the bias of queries, keys and values, in head norms and in
the scaling of RoPE.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from arena.core.errors import UsageError
from arena.core.text import first_fault, size_text

ADAPTER, ADAPTER_FILE, BASE = "adapter", "adapter_model.safetensors", "base.json"
"""Files of a checkpoint that consists of an adapter: its folder in PEFT's format, the tensors in
it, and the base model that it is added to."""
LONG_CHAT = 8_192
"""Tokens of the longest context, unless a longer one is requested: the KV cache reserves whole
contexts."""
SLOTS, CUDA_SLOTS = 32, 64
"""Requests that run concurrently."""
REGIONS_PER_SLOT = 8
"""Chats that stay in the KV cache, for each request that can run."""
KV_CACHE_BYTES, LARGE_KV_CACHE_BYTES = 2**30, 2**32
"""Address space of the KV cache, and of one that would hold fewer than LEAST_REGIONS chats. Only
the parts that are written occupy memory on a CPU."""
LEAST_REGIONS = 16


@dataclass(frozen=True, slots=True)
class Family:
    """Properties of a family that its config.json does not mention."""

    title: str
    head_norms: bool = False
    """Queries and keys are normalised per head."""
    qkv_bias: bool = False
    """Queries, keys and values have a bias."""


FAMILIES: Mapping[str, Family] = {
    "llama": Family("Llama"),
    "qwen2": Family("Qwen2 and Qwen2.5", qkv_bias=True),
    "qwen3": Family("Qwen3", head_norms=True),
}
"""The supported families under their `model_type` in config.json."""
SUPPORTED = "arena runs models of the families {}, unquantised, with RoPE default or llama3".format(
    ", ".join(f"{family.title} ({name})" for name, family in FAMILIES.items())
)


class RopeScaling(BaseModel):
    """Parameters of `llama3` scaling, which stretches RoPE for longer contexts (Llama 3.1)."""

    model_config = ConfigDict(frozen=True)

    factor: float = Field(ge=1)
    low_freq_factor: float = Field(gt=0)
    high_freq_factor: float = Field(gt=0)
    original_context: int = Field(gt=0, validation_alias="original_max_position_embeddings")
    """Tokens of the context in pretraining."""

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        if self.high_freq_factor <= self.low_freq_factor:
            raise ValueError("high_freq_factor must be greater than low_freq_factor")
        return self


class Architecture(BaseModel):
    """Sizes and variants of a model: all that the sampler and the learner compute with.

    The aliases are the names of transformers; fields without an alias follow from the family.
    """

    model_config = ConfigDict(frozen=True)

    family: str = Field(validation_alias="model_type")
    layers: int = Field(validation_alias="num_hidden_layers", ge=1)
    width: int = Field(validation_alias="hidden_size", ge=1)
    heads: int = Field(validation_alias="num_attention_heads", ge=1)
    kv_heads: int = Field(validation_alias="num_key_value_heads", ge=1)
    head_dim: int = Field(ge=2, multiple_of=2)  # RoPE rotates pairs of dimensions.
    inner: int = Field(validation_alias="intermediate_size", ge=1)
    """Width of the MLP."""
    vocabulary: int = Field(validation_alias="vocab_size", ge=1)
    context: int = Field(validation_alias="max_position_embeddings", ge=1)
    """Longest sequence in tokens."""
    epsilon: float = Field(validation_alias="rms_norm_eps")
    """Epsilon of RMSNorm."""
    theta: float = Field(validation_alias="rope_theta", gt=0)
    """Base of the RoPE frequencies."""
    scaling: RopeScaling | None = None
    """None: the default RoPE."""
    tied: bool = Field(False, validation_alias="tie_word_embeddings")
    """The output head is the embedding matrix."""
    head_norms: bool
    qkv_bias: bool

    @model_validator(mode="after")
    def _groups_heads(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError("num_attention_heads must be a multiple of num_key_value_heads")
        return self

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor of a checkpoint, under transformers' names."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer: dict[str, tuple[int, ...]] = {}
        for part, rows in (("q", queries), ("k", keys), ("v", keys)):
            layer[f"self_attn.{part}_proj.weight"] = (rows, self.width)
            if self.qkv_bias:
                layer[f"self_attn.{part}_proj.bias"] = (rows,)
        layer |= {
            "self_attn.o_proj.weight": (self.width, queries),
            "mlp.gate_proj.weight": (self.inner, self.width),
            "mlp.up_proj.weight": (self.inner, self.width),
            "mlp.down_proj.weight": (self.width, self.inner),
            "input_layernorm.weight": (self.width,),
            "post_attention_layernorm.weight": (self.width,),
        }
        if self.head_norms:
            layer |= {f"self_attn.{part}_norm.weight": (self.head_dim,) for part in "qk"}
        matrix = (self.vocabulary, self.width)
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": matrix}
        for number in range(self.layers):
            shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
        shapes["model.norm.weight"] = (self.width,)
        return shapes if self.tied else shapes | {"lm_head.weight": matrix}

    @property
    def parameters(self) -> int:
        """Return the number of weights."""
        # All layers are alike, so that their number costs nothing.
        none, one = (
            sum(map(prod, self.model_copy(update={"layers": n}).tensor_shapes().values()))
            for n in (0, 1)
        )
        return none + self.layers * (one - none)

    @property
    def cache_bytes_per_token(self) -> int:
        """Return the bytes of one token's keys and values in float32."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 4

    def chat_tokens(self, wanted: int = 0) -> int:
        """Return the tokens of the longest chat that is sampled; 0 stands for the usual ones."""
        return min(wanted or LONG_CHAT, self.context)

    def cache_chats(self, context: int, cuda_memory: int = 0, slots: int | None = None) -> int:
        """Return the number of chats of `context` tokens that the KV cache holds; 0: long chats.

        On a CUDA device the cache may take a quarter of the memory.
        """
        slots = slots or default_slots(cuda_memory)
        region = self.cache_bytes_per_token * self.chat_tokens(context)
        few = min(LEAST_REGIONS * region, LARGE_KV_CACHE_BYTES)
        room = max(KV_CACHE_BYTES, few, cuda_memory // 4)
        return max(1, min(slots * REGIONS_PER_SLOT, room // region))

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise UsageError unless tensors of these names and shapes are a whole checkpoint."""
        # First of all, since a list of their tensors may have no end.
        if self.layers > len(shapes):
            raise UsageError(
                f"the checkpoint has {len(shapes)} tensors, its config.json {self.layers} layers"
            )
        expected = self.tensor_shapes()
        for name, shape in expected.items():
            if name not in shapes:
                raise UsageError(f"the checkpoint has no tensor '{name}'")
            if shapes[name] != shape:
                raise UsageError(
                    f"the checkpoint's tensors do not fit its config.json: '{name}' has the shape "
                    f"{shapes[name]}, not {shape}"
                )
        unknown = [name for name in shapes if name not in expected and not _is_derived(name)]
        if unknown:  # To leave out a bias would be another model.
            raise UsageError(
                f"the checkpoint has tensors that a {self.family} model with this config.json does "
                f"not have: '{unknown[0]}' and {len(unknown) - 1} more; {SUPPORTED}"
            )


def _is_derived(name: str) -> bool:
    """Check for a tensor that others give: a tied head, or the frequencies of RoPE."""
    return name == "lm_head.weight" or name.endswith(".rotary_emb.inv_freq")


def default_slots(cuda_memory: int) -> int:
    """Return the number of requests that run concurrently; `cuda_memory` is 0 on a CPU."""
    return CUDA_SLOTS if cuda_memory else SLOTS


def read_model_config(folder: Path) -> dict[str, JsonValue]:
    """Return the content of a checkpoint's config.json. Raises UsageError."""
    return read_json_object(folder / "config.json")


def read_architecture(folder: Path) -> Architecture:
    """Return the architecture of the checkpoint in a folder.

    Raises UsageError for a folder without a config.json and for a model that is not supported.
    """
    architecture = parse_architecture(read_model_config(folder), str(folder))
    try:
        size = sum(path.stat().st_size for path in weight_files(folder))
    except UsageError:  # It is raised where the weights are read.
        return architecture
    # A weight takes two bytes or more. So no number of config.json makes lists without end.
    if architecture.parameters > size:
        raise UsageError(
            f"{folder}: its config.json describes more weights than its files of "
            f"{size_text(size)} can hold"
        )
    return architecture


def parse_architecture(config: Mapping[str, JsonValue], place: str = "config.json") -> Architecture:
    """Return the architecture that a config.json describes; `place` names it in errors.

    Raises UsageError for an unsupported model: the message lists the supported ones.
    """
    given: dict[str, Any] = {name: value for name, value in config.items() if value is not None}
    model_type = given.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        raise UsageError(f"{place}: model_type={model_type!r}; {SUPPORTED}")
    rope = _rope_fields(given)
    refused = _unsupported(given, rope)
    if refused:
        raise UsageError(f"{place}: {refused} is not supported; {SUPPORTED}")
    width, heads = given.get("hidden_size"), given.get("num_attention_heads")
    if isinstance(width, int) and isinstance(heads, int) and heads > 0:
        given = {"head_dim": width // heads, "num_key_value_heads": heads} | given
    given |= {
        "head_norms": family.head_norms,
        "qkv_bias": family.qkv_bias,
        "rope_theta": rope.get("rope_theta", 10_000.0),
        "scaling": rope if rope["rope_type"] == "llama3" else None,
    }
    try:
        return Architecture.model_validate(given)
    except ValidationError as error:
        raise UsageError(f"{place}: {first_fault(error)}") from None


def _rope_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of RoPE: transformers 5 groups them, older versions put some beside."""
    fields = {
        name: given[name] for name in ("rope_theta", "partial_rotary_factor") if name in given
    }
    fields |= {"original_max_position_embeddings": given.get("max_position_embeddings")}
    for group in ("rope_scaling", "rope_parameters"):
        value = given.get(group)
        fields |= value if isinstance(value, dict) else {}
    return {"rope_type": fields.get("type") or "default"} | fields


def _unsupported(given: Mapping[str, Any], rope: Mapping[str, Any]) -> str:
    """Return the first setting that changes the computation in an unsupported way, or ""."""
    layer_types = given.get("layer_types")
    sliding = isinstance(layer_types, list) and set(map(str, layer_types)) != {"full_attention"}
    conditions = {
        f"rope_type={rope['rope_type']!r}": rope["rope_type"] not in ("default", "llama3"),
        "partial_rotary_factor": rope.get("partial_rotary_factor", 1.0) != 1.0,
        f"hidden_act={given.get('hidden_act')!r}": given.get("hidden_act", "silu") != "silu",
        "sliding-window attention": bool(given.get("use_sliding_window")) or sliding,
        "quantization_config": "quantization_config" in given,
        "attention_bias": given["model_type"] != "qwen2" and bool(given.get("attention_bias")),
        "mlp_bias": bool(given.get("mlp_bias")),
    }
    return next((name for name, applies in conditions.items() if applies), "")


class AdapterBase(BaseModel):
    """Content of base.json: the base model of a checkpoint that consists of an adapter."""

    folder: Path
    sha256: str
    """`weights_digest` of the folder."""


def adapter_base(folder: Path) -> AdapterBase | None:
    """Return the base model of a checkpoint that consists of an adapter; None for all others.

    Raises UsageError if its base.json is damaged, or names a folder without a model.
    """
    path = folder / BASE
    if not path.exists() or (folder / "model.safetensors").is_file():
        return None
    try:
        base = AdapterBase.model_validate(read_json_object(path))
    except ValidationError as error:
        raise UsageError(f"{path}: cannot be read ({first_fault(error)})") from None
    if base.folder == folder or not (base.folder / "config.json").is_file():
        raise UsageError(
            f"{folder}: has only an adapter, whose base model is not in {base.folder} any more; "
            f"name its new folder in {path}"
        )
    return base


def weights_digest(folder: Path) -> str:
    """Return the SHA-256 of the files with the weights of a checkpoint, in hexadecimal digits."""
    digest = hashlib.sha256()
    for path in weight_files(folder):
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def weight_files(folder: Path) -> list[Path]:
    """Return the checkpoint's safetensors files: model.safetensors, or those of the index.

    Raises UsageError if there are none, and for an index that is damaged or names a missing file.
    """
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file():
        return [whole]
    if base := adapter_base(folder):
        return [*weight_files(base.folder), folder / ADAPTER / ADAPTER_FILE]
    if not index.exists():
        raise UsageError(f"{folder}: has no model.safetensors and no {index.name}")
    places = read_json_object(index).get("weight_map")
    names = set(map(str, places.values())) if isinstance(places, dict) else set()
    files = [folder / name for name in sorted(names)]
    # Only files of the folder itself: an index must not name a place elsewhere.
    missing = [path.name for path in files if path.parent != folder or not path.is_file()]
    if missing or not files:
        raise UsageError(
            f"{index}: {', '.join(missing) or 'any file'} is missing; download the model again"
        )
    return files


MAX_JSON_BYTES = 16 << 20


def read_text(path: Path, longest: int) -> str:
    """Return the text of a regular file of at most `longest` bytes. Raises UsageError."""
    try:
        # A pipe or a device would be read for ever.
        if path.exists() and not path.is_file():
            raise ValueError("it is not a regular file")
        if path.stat().st_size > longest:
            raise ValueError(f"it has more than {size_text(longest)}")
        return path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raises UsageError."""
    text = read_text(path, MAX_JSON_BYTES)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path}: cannot be read ({path.name} is not a JSON object)")
    return value


def read_optional_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, empty without the file. Raises UsageError."""
    return read_json_object(path) if path.exists() else {}


def read_end_ids(
    folder: Path, config: Mapping[str, JsonValue], eos_id: int | None
) -> tuple[int, ...]:
    """Return the end tokens, first the tokenizer's, which ends constrained answers."""
    generation = read_optional_object(folder / "generation_config.json")
    configured = generation.get("eos_token_id", config.get("eos_token_id"))
    others = configured if isinstance(configured, list) else [configured]
    # A dict removes duplicates and keeps the order.
    end_ids = dict.fromkeys(end for end in (eos_id, *others) if end is not None)
    if not end_ids:
        raise UsageError(f"{folder}: defines no end token")
    return tuple(end_ids)
