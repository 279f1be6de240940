"""Bundled games; `catalog.toml` lists them with their bots and reward terms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Register the names of `catalog.toml`, as a third-party plugin would."""
    catalog.add_file(Path(__file__).with_name("catalog.toml"))
