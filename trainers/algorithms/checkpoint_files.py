"""Files of a checkpoint: tensors in the safetensors format, flushed to disk."""

from __future__ import annotations

import os
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from arena.core.errors import ArenaError


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint that `Learner.save` wrote. Raises ArenaError."""
    return read_tensors(folder / "model.safetensors")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of a checkpoint. Raises ArenaError if it is missing or broken."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ArenaError(
            f"the checkpoint {path.parent} cannot be read: {path.name}: {error}; --fresh moves the "
            "run aside and starts again"
        ) from None


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file. Raises ArenaError."""
    try:
        save_file(tensors, path, {"format": "pt"})
    except SafetensorError as error:
        raise ArenaError(f"cannot write {path}: {error}") from None


def fsync(path: Path) -> None:
    """Flush a file, or the list of names in a folder, to disk."""
    # A folder can be opened for reading only, and `fsync` flushes what any handle has written.
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
