"""`arena replay PATH… --export FORMAT`: replays as data for other tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.common.terminal import echo, print_copies, progress_bar
from arena.cli.replaying.modes import FILM_FORMATS
from arena.core.errors import UsageError
from arena.core.text import pluralize, printable

if TYPE_CHECKING:
    from arena.cli.replaying.call import Call
    from trainers.export.exporter import ExportResult

SUFFIXES = frozenset({".jsonl", ".json", ".parquet", ".csv", ".html", ".txt"})
"""Names that promise something; a file of another kind would mislead whoever reads it."""
NAMED = 10
"""Files that were left out and are named; the rest is counted. --json names all."""


def export(call: Call) -> int:
    """Write the replays to one file; an existing one is replaced when the new one is complete."""
    from arena.plugins.loader import catalog
    from trainers.export.exporter import export_replays

    data = call.data
    if not call.paths:
        raise UsageError("which replays? arena replay PATH… --export FORMAT")
    try:
        make = catalog().load("export", data.export or "")
    except UsageError as error:
        raise UsageError(f"{error}; for films: {', '.join(FILM_FORMATS)}") from None
    out = data.out or Path(f"replays-{make.suffix}")
    suffix = Path(make.suffix).suffix
    if out.suffix.lower() in SUFFIXES - {suffix}:
        raise UsageError(
            f"--out {out}: --export {data.export} writes {suffix}; name the file "
            f"{out.with_suffix(suffix)}"
        )
    with progress_bar(transient=True) as progress:
        bar = progress.add_task("replays", total=None)
        exported = export_replays(
            call.paths,
            out,
            make,
            data.reward or "",
            lambda done, total: progress.update(bar, completed=done, total=total),
        )
    _print_result(exported, call.as_json)
    return 0


def _print_result(exported: ExportResult, as_json: bool) -> None:
    from trainers.export.exporter import summarise_reasons

    for skipped in exported.skipped[:NAMED]:
        echo(printable(f"skipped {skipped.path}: {skipped.reason}"), file=sys.stderr)
    more = exported.skipped[NAMED:]
    if more:
        why = "; ".join(summarise_reasons(more))
        echo(printable(f"skipped {pluralize(len(more), 'more file')}; {why}"), file=sys.stderr)
    print_copies(exported.copies)
    for note in exported.notes:
        echo(note, file=sys.stderr)
    if as_json:
        counts = {"rows": exported.rows, "games": exported.games, "copies": exported.copies}
        left_out = [{"path": str(each.path), "reason": each.reason} for each in exported.skipped]
        print(json.dumps({**counts, "skipped": left_out, "file": str(exported.file)}))
    else:
        rows, games = pluralize(exported.rows, "row"), pluralize(exported.games, "game")
        echo(printable(f"wrote {rows} of {games} to {exported.file}"))
