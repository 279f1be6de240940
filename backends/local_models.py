"""Checkpoints on this machine, with the memory that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import UsageError
from backends.embedded import bundled_checkpoints
from backends.embedded.architecture import FAMILIES, Architecture, read_architecture, weight_files

LIBRARIES_BYTES = 350_000_000
"""Memory of a process that has imported arena and torch."""
FLOAT = 4
"""Bytes of a weight: the sampler and the learner compute in float32, whatever the file holds."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A checkpoint on this machine. All sizes are in bytes."""

    name: str
    """What follows `embedded:` in the SPEC of a player."""
    source: str
    """bundled, or the run that trained it."""
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
        # The file stays mapped, to merge adapters with its tensors.
        weights = FLOAT * self.architecture.parameters + self.file_bytes
        return LIBRARIES_BYTES + weights + self.architecture.cache_bytes()

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
            "fault": self.fault or None,
        }


def local_models(trained: Mapping[str, Path]) -> Iterator[LocalModel]:
    """Yield bundled models, then `trained` checkpoints by the names of their runs."""
    for name, folder in bundled_checkpoints().items():
        yield _describe(name, "bundled", folder)
    for run, folder in trained.items():
        yield _describe(str(folder), f"run {run}", folder)


def newest_checkpoints(runs: Iterable[Path]) -> dict[str, Path]:
    """Return the checkpoint with the most steps of each training run that has one, by its name."""
    places = ("checkpoints", "art/*/models/*/checkpoints")  # Of the embedded host, and of ART.
    found = {
        run.name: [
            path.parent for place in places for path in run.glob(f"{place}/[0-9]*/config.json")
        ]
        for run in runs
    }
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
