"""`arena replay PATH… --export FORMAT`: replays as data for other tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arena.errors import UsageError
from arena.printable import clean

if TYPE_CHECKING:
    from arena.cli.replay import Call
    from arena.exporting import Exported

NAMED = 10
"""Files that were left out and are named; the rest is counted. --json names all."""


def export(call: Call) -> int:
    """Write the replays to one file; an existing one is replaced when the new one is complete."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from arena.exporting import export_replays
    from arena.registry import catalog

    data = call.data
    if not call.paths:
        raise UsageError("which replays? arena replay PATH… --export FORMAT")
    make = catalog().load("export", data.export or "")
    out = data.out or Path(f"replays-{make.suffix}")
    with Progress(
        *Progress.get_default_columns(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    ) as progress:
        bar = progress.add_task("replays", total=None)
        exported = export_replays(
            call.paths,
            out,
            make,
            data.reward or "",
            lambda done, total: progress.update(bar, completed=done, total=total),
        )
    _tell(exported, call.as_json)
    return 0


def _tell(exported: Exported, as_json: bool) -> None:
    for skipped in exported.skipped[:NAMED]:
        print(clean(f"skipped {skipped.path}: {skipped.reason}"), file=sys.stderr)
    if len(exported.skipped) > NAMED:
        print(f"skipped {len(exported.skipped) - NAMED} more files", file=sys.stderr)
    if exported.copies:
        print(f"{exported.copies} files are copies of others: they count once", file=sys.stderr)
    for note in exported.notes:
        print(note, file=sys.stderr)
    if as_json:
        told = {"rows": exported.rows, "games": exported.games, "copies": exported.copies}
        left_out = [{"path": str(each.path), "reason": each.reason} for each in exported.skipped]
        print(json.dumps({**told, "skipped": left_out, "file": str(exported.file)}))
    else:
        print(clean(f"wrote {exported.rows} rows of {exported.games} games to {exported.file}"))
