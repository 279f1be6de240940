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
    """Return the backend of a bundled checkpoint or of a checkpoint in a folder.

    Raises UsageError for an unknown checkpoint, MissingDependency without the extra "embedded".
    """
    folder = find_checkpoint(model)
    require("an embedded model", ("torch", "tokenizers", "safetensors"), "embedded")
    from backends.embedded.backend import EmbeddedBackend

    return EmbeddedBackend(folder)


def find_checkpoint(model: str) -> Path:
    """Return the folder of a bundled checkpoint or the folder itself; empty is the default.

    Raises UsageError for an unknown name and for a folder without a config.json.
    """
    name = model or DEFAULT_CHECKPOINT
    bundled = sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))
    if name in bundled:
        return CHECKPOINTS / name
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder.resolve()
    raise UsageError(
        f"embedded:{name}: neither a folder with a config.json nor a bundled checkpoint "
        f"({', '.join(bundled) or 'there are none'})"
    )
