"""`embedded:NAME`: a small transformer that runs in this process, without a key or a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from arena.core.errors import UsageError
from arena.plugins.extras import require

if TYPE_CHECKING:
    from arena.llm.backend import Backend
    from arena.llm.settings import Settings

CHECKPOINTS = Path(__file__).parent / "checkpoints"
DEFAULT_CHECKPOINT = "clue-tiny"


def embedded(model: str, settings: Settings) -> Backend:
    """The backend of a checkpoint that ships with the package, or of one in a folder.

    Raises UsageError if there is no such checkpoint, MissingDependency without the extra.
    """
    folder = find_checkpoint(model)
    require("an embedded model", ("torch", "transformers", "safetensors"), "embedded")
    from backends.embedded.backend import EmbeddedBackend

    return EmbeddedBackend(folder)


def find_checkpoint(model: str) -> Path:
    """The folder that NAME or PATH means; empty is the default. Raises UsageError for neither."""
    name = model or DEFAULT_CHECKPOINT
    shipped = sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))
    if name in shipped:
        return CHECKPOINTS / name
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder.resolve()
    raise UsageError(
        f"embedded:{name} is no folder with a config.json, and no checkpoint that is included "
        f"({', '.join(shipped) or 'there is none'})"
    )
