"""Training of models by playing games: GRPO, rewards, hosts of weights, pretraining, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the bundled rewards, exports and hosts."""
    catalog.add_file(Path(__file__).with_name("catalog.toml"))
