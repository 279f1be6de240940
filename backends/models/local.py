"""Checkpoints on this machine, with their size and the memory that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import UsageError
from backends.embedded import CHECKPOINTS, named_checkpoints
from backends.embedded.architecture import (
    FAMILIES,
    KV_CACHE_BYTES,
    LONG_CHAT,
    Architecture,
    read_architecture,
    weight_files,
)

LIBRARIES_BYTES = 350_000_000
"""Memory of a process that has imported arena, torch and, for training, transformers."""
FLOAT = 4
"""Bytes of a weight: the sampler and the learner compute in float32, whatever the file holds."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A checkpoint on this machine. All sizes are in bytes."""

    name: str
    """What follows `embedded:` in the SPEC of a player."""
    source: str
    """bundled, fetched, or the run that trained it."""
    folder: Path
    architecture: Architecture | None
    file_bytes: int
    fault: str = ""
    """The reason why it cannot be used; then the other fields are incomplete."""

    @property
    def sampling_bytes(self) -> int | None:
        """Return the most memory that playing needs; None for a model that cannot be used."""
        if self.architecture is None:
            return None
        # At least one region of the sampler's cache: the keys and values of one long chat.
        chat = self.architecture.cache_bytes_per_token * min(self.architecture.context, LONG_CHAT)
        # The file stays mapped, to merge adapters with its tensors.
        weights = FLOAT * self.architecture.parameters + self.file_bytes
        return LIBRARIES_BYTES + weights + max(KV_CACHE_BYTES, chat)

    @property
    def training_bytes(self) -> int | None:
        """Return the most memory of `arena train` with all weights, without activations."""
        # The learner's weights, gradients and Adam's two moments; in the sampler the newest step
        # and the starting policy; one copy on its way there and to the file.
        return self._training_bytes(4 + 2 + 1)

    @property
    def lora_training_bytes(self) -> int | None:
        """Return the same with a LoRA adapter, which itself is small."""
        # The learner's base weights, and merged with the adapter in each step; then as above.
        return self._training_bytes(2 + 2 + 1)

    def _training_bytes(self, copies: int) -> int | None:
        if self.architecture is None or self.sampling_bytes is None:
            return None
        return self.sampling_bytes + copies * FLOAT * self.architecture.parameters

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields for `--json`; unknown ones are null."""
        architecture = self.architecture
        return {
            "name": self.name,
            "spec": f"embedded:{self.name}",
            "source": self.source,
            "folder": str(self.folder),
            "family": architecture.family if architecture else None,
            "parameters": architecture.parameters if architecture else None,
            "context": architecture.context if architecture else None,
            "file_bytes": self.file_bytes,
            "sampling_bytes": self.sampling_bytes,
            "lora_training_bytes": self.lora_training_bytes,
            "training_bytes": self.training_bytes,
            "fault": self.fault or None,
        }


def local_models(trained: Mapping[str, Path]) -> Iterator[LocalModel]:
    """Yield bundled and fetched models, then `trained` checkpoints by the names of their runs."""
    for name, folder in sorted(named_checkpoints().items()):
        source = "bundled" if folder.parent == CHECKPOINTS else "fetched"
        yield _describe(name, source, folder)
    for run, folder in trained.items():
        yield _describe(str(folder), f"run {run}", folder)


def newest_checkpoints(runs: Iterable[Path]) -> dict[str, Path]:
    """Return the checkpoint with the most steps of each training run that has one, by its name."""
    pattern = "art/*/models/*/checkpoints/[0-9]*/config.json"
    found = {run.name: [path.parent for path in run.glob(pattern)] for run in runs}
    return {
        name: max(folders, key=lambda folder: folder.name)
        for name, folders in sorted(found.items())
        if folders
    }


def _describe(name: str, source: str, folder: Path) -> LocalModel:
    try:
        architecture, files = read_architecture(folder), weight_files(folder)
    except UsageError as error:
        return LocalModel(name, source, folder, None, 0, str(error))
    size = sum(path.stat().st_size for path in files)
    return LocalModel(name, source, folder, architecture, size)


def family_title(model: LocalModel) -> str:
    """Return the name of the family as its makers write it, or a dash."""
    return FAMILIES[model.architecture.family].title if model.architecture else "–"
