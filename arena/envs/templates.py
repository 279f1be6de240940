"""Files of a generated package, from templates beside the module that writes the package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from arena.core.errors import ArenaError

SUFFIX = ".tmpl"
RENAMED = {"dockerignore": ".dockerignore"}
"""Files and folders whose names would mean something in this repository or its wheel."""


def filled_templates(package: str, values: Mapping[str, str]) -> dict[str, str]:
    """Fill the templates in the folder `template` of a package; return the texts by their paths."""
    return {path: Template(text).substitute(values) for path, text in _templates(package)}


def _templates(package: str) -> Iterator[tuple[str, str]]:
    """Yield the path in the generated package and the text of each template."""
    folders: list[tuple[str, Traversable]] = [("", files(package).joinpath("template"))]
    for prefix, folder in folders:
        for entry in folder.iterdir():
            name = entry.name.removesuffix(SUFFIX)
            path = f"{prefix}{RENAMED.get(name, name)}"
            if entry.is_dir():
                folders.append((f"{path}/", entry))
            elif entry.name.endswith(SUFFIX):
                yield path, entry.read_text("utf-8")


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files below a folder. Raises ArenaError if that is not possible."""
    try:
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArenaError(f"cannot write {folder}: {error.strerror}") from error
