"""Ledger of a run: printed at its end and stored beside its games."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.common.paths import unused_path
from arena.core.errors import ArenaError
from arena.episodes.files import write_whole

if TYPE_CHECKING:
    from arena.llm.ledger import Ledger


def settle_accounts(ledger: Ledger, folder: Path, stem: str, quiet: bool = False) -> None:
    """Write `STEM.ledger.json`, without overwriting another, and print the ledger on stderr."""
    from rich.console import Console

    path = unused_path(folder, stem, ".ledger.json")
    try:
        write_ledger(ledger, path)
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error
    if not quiet:
        Console(stderr=True).print(ledger.table())


def write_ledger(ledger: Ledger, path: Path) -> None:
    """Write the ledger as JSON; a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(ledger.to_json(), indent=2) + "\n")
