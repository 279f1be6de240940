"""`embedded:NAME`: a small transformer that runs in this process, without a key or a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from arena.core.errors import UsageError
from arena.plugins.extras import require
from backends.models.packaged import FETCHABLE

if TYPE_CHECKING:
    from arena.llm.backend import Backend
    from arena.llm.settings import Settings

CHECKPOINTS = Path(__file__).parent / "checkpoints"
DEFAULT_CHECKPOINT = "clue-tiny"


def embedded(model: str, settings: Settings) -> Backend:
    """Return the backend of a bundled or fetched model, or of a checkpoint in a folder.

    Raises UsageError for an unknown checkpoint, MissingDependency without the extra "embedded".
    """
    folder = find_checkpoint(model)
    require("an embedded model", ("torch", "tokenizers", "safetensors"), "embedded")
    from backends.embedded.backend import EmbeddedBackend

    return EmbeddedBackend(folder)


def models_folder() -> Path:
    """Return the folder of fetched models, which need not exist.

    It is `models` in ARENA_HOME, or in `arena` in the user's folder for caches (XDG_CACHE_HOME).
    """
    home = os.environ.get("ARENA_HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(home) if home else Path(cache, "arena")).expanduser() / "models"


def named_checkpoints() -> dict[str, Path]:
    """Return the folders of bundled and of fetched models by their names, bundled ones first."""
    roots = (CHECKPOINTS, models_folder())
    found = [path.parent for root in roots for path in sorted(root.glob("*/config.json"))]
    # A hidden folder is a download in progress. A bundled model keeps its name.
    return {path.name: path for path in reversed(found) if not path.name.startswith(".")}


def find_checkpoint(model: str) -> Path:
    """Return the folder of a bundled or fetched model, or the folder itself; empty: the default.

    Raises UsageError for an unknown name and for a folder without a config.json.
    """
    name = model or DEFAULT_CHECKPOINT
    named = named_checkpoints()
    if name in named:
        return named[name]
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder.resolve()
    if name in FETCHABLE:
        raise UsageError(
            f"embedded:{name}: not on this machine yet; run: arena models fetch {name}"
        )
    known = ", ".join(sorted(named)) or "there are none"
    raise UsageError(
        f"embedded:{name}: neither a folder with a config.json nor a model on this machine "
        f"({known}); to fetch: {', '.join(FETCHABLE)}"
    )
