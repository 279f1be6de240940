"""Files of a checkpoint: tensors in the safetensors format, in a folder that is complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from arena.core.errors import ArenaError
from backends.embedded.architecture import (
    ADAPTER,
    BASE,
    adapter_base,
    read_architecture,
    read_model_config,
)
from backends.embedded.layers import read_state_dict

WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.gguf",
                "*.pth", "*.onnx", "original")  # fmt: skip
"""Weights in a base model's folder, in any format; "original" holds Meta's of a Llama."""
OPTIMIZER = "optimizer.state"
"""A safetensors file. With that ending it would be read as weights, here and by vLLM."""
NOT_COPIED = ("pretraining.json", OPTIMIZER, ADAPTER, BASE)
"""Files of the base model's folder, beside its weights, that do not describe a checkpoint."""


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint that `Learner.save` wrote. Raises ArenaError."""
    return read_tensors(folder / "model.safetensors")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of a checkpoint. Raises ArenaError if it is missing or broken."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ArenaError(
            f"the checkpoint {path.parent} cannot be read: {path.name}: {error}; start again: "
            "arena train with another --experiment-name, arena pretrain with a new --out"
        ) from None


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file. Raises ArenaError."""
    try:
        save_file(tensors, path, {"format": "pt"})
    except SafetensorError as error:
        raise ArenaError(f"cannot write {path}: {error}") from None


def merge_checkpoint(folder: Path) -> None:
    """Add model.safetensors to a checkpoint that has only an adapter, for programs that need it.

    Raises UsageError and ArenaError, as `read_state_dict` and `write_tensors`.
    """
    if adapter_base(folder) is None:
        return
    state, names = read_state_dict(folder), read_architecture(folder).tensor_shapes()
    draft = folder / ".merged.part"
    write_tensors({name: state[name].float().contiguous() for name in names}, draft)
    fsync(draft)
    draft.rename(folder / "model.safetensors")


def fsync(path: Path) -> None:
    """Flush a file, or the list of names in a folder, to disk."""
    # A folder can be opened for reading only, and `fsync` flushes what any handle has written.
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def draft_of(folder: Path, base: Path) -> Iterator[Path]:
    """Yield an empty place for a checkpoint's files; afterwards it replaces `folder`, complete.

    It begins with the files of the base model that describe it, such as its tokenizer. config.json
    names float32 as the type of the weights. After an exception `folder` is as before.
    """
    # Hidden, so that no list of checkpoints contains it. A killed process may leave it behind,
    # which the next draft of this step removes.
    draft = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(base, draft, ignore=shutil.ignore_patterns(*WEIGHT_FILES, *NOT_COPIED))
    # transformers would load the weights in the type of the base model.
    # `torch_dtype` is the older name of `dtype`.
    config = read_model_config(draft) | {"dtype": "float32", "torch_dtype": "float32"}
    (draft / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    yield draft
    # Files before the folder, the folder before its new name: after a power failure the name never
    # refers to incomplete content.
    for path in [*sorted(draft.rglob("*")), draft]:
        fsync(path)
    # `rename` cannot replace a folder that has content. Moved aside and not deleted at first, so
    # that a process that is killed here leaves a complete one.
    aside = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists():
        folder.rename(aside)
    draft.rename(folder)
    fsync(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)
