"""Conversion of a GGUF file of a Llama into a Hugging Face checkpoint.

GGUF is the format of llama.cpp: one file with metadata, vocabulary and quantised tensors. The
checkpoint holds the dequantised weights in float32, so nothing is lost in the conversion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import UsageError
from backends.embedded.architecture import parse_architecture

Fields = Mapping[str, Any]
"""Metadata of a file: numbers, texts and lists."""

TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""llama.cpp's names of modules, and transformers'."""
CONTROL_TOKEN = 3
"""The type of special tokens in `tokenizer.ggml.token_type`."""


def convert_gguf(path: Path, folder: Path) -> None:
    """Write the checkpoint of a GGUF file into an existing folder.

    Raises UsageError for a file that is damaged, of another architecture than Llama, or with
    another tokenizer than the byte-level BPE of SmolLM.
    """
    from gguf.gguf_reader import GGUFReader

    try:
        reader: Any = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise UsageError(f"{path}: cannot read a GGUF file ({error})") from None
    kinds = [fields.get(name) for name in ("general.architecture", "tokenizer.ggml.pre")]
    if kinds != ["llama", "smollm"]:
        raise UsageError(f"{path}: architecture and tokenizer are {kinds}, not llama and smollm")
    try:
        config = _model_config(fields, {tensor.name for tensor in reader.tensors})
        _write_json(folder / "config.json", config)
        _write_tokenizer(folder, fields)
    except KeyError as error:
        raise UsageError(f"{path}: the metadata has no {error}") from None
    _write_weights(folder / "model.safetensors", reader.tensors, config)


def _model_config(fields: Fields, tensors: set[str]) -> dict[str, Any]:
    """Return the content of config.json, with names that every version of transformers reads."""
    heads = fields["llama.attention.head_count"]
    width = fields["llama.embedding_length"]
    # GGUF stores float32: 1e-5 would become 9.999999747378752e-06.
    epsilon = float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "torch_dtype": "float32",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "num_hidden_layers": fields["llama.block_count"],
        "hidden_size": width,
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("llama.attention.head_count_kv", heads),
        "head_dim": fields.get("llama.rope.dimension_count", width // heads),
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": epsilon,
        "rope_theta": float(fields.get("llama.rope.freq_base", 10_000.0)),
        "tie_word_embeddings": "output.weight" not in tensors,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
    }


def _write_weights(path: Path, tensors: Any, config: Mapping[str, Any]) -> None:
    from safetensors.numpy import save_file

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = dict(_named_weights(tensors, heads))
    parse_architecture(config).check_shapes({name: each.shape for name, each in weights.items()})
    save_file(weights, path, {"format": "pt"})


def _named_weights(
    tensors: Any, heads: Mapping[str, int]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield transformers' name and the float32 values of each tensor."""
    from gguf.quants import dequantize

    for tensor in tensors:
        match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", tensor.name)
        if match is None or match[2] not in TENSORS:
            # Frequencies of a scaled RoPE, for example: without them it would be another model.
            raise UsageError(f"the GGUF tensor '{tensor.name}' is not supported")
        layer, module, kind = match.groups()
        try:
            values = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        except NotImplementedError as error:
            raise UsageError(f"the GGUF tensor '{tensor.name}': {error}") from None
        # GGUF lists sizes in the opposite order; the data is [outputs, inputs] as in torch.
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        if module in heads:
            values = _halves_first(values, heads[module])
        prefix = f"model.layers.{layer}." if layer else ""
        yield f"{prefix}{TENSORS[module]}.{kind}", np.ascontiguousarray(values)


def _halves_first(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Reorder the rows of each head from llama.cpp's (0, h, 1, h+1, …) to (0 … h-1, h … 2h-1).

    llama.cpp rotates neighbouring rows by RoPE, transformers row i together with row h + i.
    """
    pairs = values.reshape(heads, -1, 2, *values.shape[1:])  # [heads, h, 2, …]
    return pairs.swapaxes(1, 2).reshape(values.shape)


def _write_tokenizer(folder: Path, fields: Fields) -> None:
    """Write SmolLM's tokenizer: digits one by one, then byte-level BPE as in GPT-2."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
    special = [AddedToken(token, special=True, normalized=False) for token, kind in kinds
               if kind == CONTROL_TOKEN]  # fmt: skip
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    ids = {role: fields[f"tokenizer.ggml.{name}_token_id"] for role, name in roles.items()}
    _write_json(
        folder / "tokenizer_config.json",
        {f"{role}_token": tokens[number] for role, number in ids.items()}
        | {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": fields["llama.context_length"],
        },
    )
    generation = {f"{role}_token_id": ids[role] for role in ("bos", "eos", "pad")}
    _write_json(folder / "generation_config.json", generation)
    template = fields["tokenizer.chat_template"]
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
