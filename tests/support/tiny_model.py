"""A small random checkpoint in the Hugging Face format, with tokenizer and template."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
TINY_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"family": "llama"},
    "llama-untied": {"family": "llama", "tied": False, "kv_heads": 4},
    "llama3-rope": {"family": "llama", "kv_heads": 1, "rope_parameters": LLAMA3_ROPE},
    "qwen2": {"family": "qwen2"},
    "qwen2-untied": {"family": "qwen2", "tied": False, "rope_theta": 1e6},
    "qwen3": {"family": "qwen3", "head_dim": 32, "heads": 6},
    "qwen3-untied": {"family": "qwen3", "tied": False},
}
"""Options of `build_tiny_model`: a variant of each supported family, most with 4 heads of 16."""
for _options in TINY_FAMILIES.values():
    _options |= {"layers": 2, "width": 64, "inner": 96, "head_dim": 16} | _options
SMALL: dict[str, Any] = {"width": 32, "heads": 4, "kv_heads": 2, "head_dim": 16, "inner": 64}
"""Options of a model that is trained in tests."""
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = [
    "system user assistant I suggest Colonel Mustard in the kitchen with the rope",
    "suggest Professor Plum in the library with the lead pipe; nobody could show a card",
    "Miss Scarlet accuses Mrs. Peacock in the ballroom with the candlestick, and is wrong",
]


def build_tiny_model(
    folder: Path,
    *,
    seed: int = 0,
    layers: int = 4,
    width: int = 128,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 32,
    inner: int = 384,
    vocabulary: int = 600,
    context: int = 2048,
    tied: bool = True,
    spread: float = 0.08,
    family: str = "qwen3",
    **more: Any,
) -> Path:
    """Write the checkpoint into `folder` and return it. `spread` is the weights' deviation.

    `more` are further fields of the family's config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(vocabulary)
    tokenizer.save_pretrained(folder)
    config = AutoConfig.for_model(
        family,
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=context,
        tie_word_embeddings=tied,
        initializer_range=spread,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **more,
    )
    generator_state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    for name, weight in model.named_parameters():
        if name.endswith("norm.weight"):  # Ones would hide a norm that is left out.
            weight.data.uniform_(0.5, 1.5)
        if name.endswith(".bias"):  # Zeros would hide a bias that is left out.
            weight.data.uniform_(-0.5, 0.5)
    torch.random.set_rng_state(generator_state)
    model.save_pretrained(folder)
    return folder


def _tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE: every text has tokens, and a character may take several."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=TEMPLATE,
    )


def write_adapter(folder: Path, model: Path, seed: int = 1) -> None:
    """A LoRA adapter of rank 2, in PEFT's format, that changes much."""
    name = "model.layers.0.mlp.down_proj"
    rows, columns = load_file(model / "model.safetensors")[f"{name}.weight"].shape
    generator = torch.Generator().manual_seed(seed)
    down, up = (torch.randn(*shape, generator=generator) for shape in ((2, columns), (rows, 2)))
    folder.mkdir()
    save_file(
        {
            f"base_model.model.{name}.lora_A.weight": down,
            f"base_model.model.{name}.lora_B.weight": up,
        },
        folder / "adapter_model.safetensors",
    )
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["down_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Return whether the tensors are equal to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
