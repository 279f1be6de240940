"""Modes of `arena replay` without other players: views, verification and data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.replay import Call
from arena.cli.terminal import counter, echo, print_copies, print_result
from arena.core.errors import UsageError
from arena.core.text import pluralize, printable

if TYPE_CHECKING:
    from arena.episodes.replay import Replay
    from trainers.export.exporter import ExportResult


def serve_page(call: Call) -> int:
    """Serve the page until Ctrl-C."""
    from replays.web import serve

    return serve(call.path, call.page.port, moment_address(call))


def moment_address(call: Call) -> str:
    """Return the fragment of the page's address for --position and --seat; "" without them."""
    if call.look.position is None and not call.look.seat:
        return ""
    if call.path.is_dir():
        raise UsageError("--position and --seat with --web: name the replay that they are about")
    _, ply, seat = moment(call)
    fields = {"at": ply, "seat": seat}
    return "#" + "&".join(f"{name}={value}" for name, value in fields.items() if value is not None)


def write_html(call: Call) -> int:
    """Write the page of one replay."""
    from replays.web.bundle import write_bundle

    replay, _, seat = moment(call)
    assert call.page.html is not None  # Else another mode was chosen.
    write_bundle(replay, seat, call.page.html)
    return 0


def step_through(call: Call) -> int:
    """Show the replay in the terminal."""
    from replays.tui.viewer import step_through as show

    show(*moment(call))
    return 0


def moment(call: Call) -> tuple[Replay, int | None, int | None]:
    """Return the replay, --position and --seat; raises UsageError for what it does not have."""
    replay, ply, given = call.replay(), call.look.position, call.look.seat
    if ply is not None and ply > len(replay.moves):
        plies = pluralize(len(replay.moves), "ply")
        raise UsageError(f"--position {ply}: {replay.path} has {plies}")
    if not given:
        return replay, ply, None
    seats = replay.make_game().num_players
    if len(given) > 1 or not (given[0].isascii() and given[0].isdecimal()):
        raise UsageError(
            f"--seat {' --seat '.join(given)}: name one seat by its number to look through its "
            "eyes; I=SPEC goes with --branch"
        )
    if int(given[0]) >= seats:
        raise UsageError(f"--seat {given[0]}: {replay.path} has seats 0 to {seats - 1}")
    return replay, ply, int(given[0])


def verify_replay(call: Call) -> int:
    """Play the game again; exit with 1 at the first difference, which is named."""
    from arena.episodes.replay import UNPROVEN, verify

    replay = call.replay()
    difference = verify(replay)
    if call.as_json:
        found = {"verified": difference is None, "difference": difference, "unproven": UNPROVEN}
        complete = replay.outcome is not None
        print(json.dumps({"replay": str(replay.path), **found, "complete": complete}))
    elif difference:
        echo(printable(f"{replay.path}: differs at {difference}"))
    else:
        state = "verified" if replay.outcome else "verified as far as it goes"
        echo(printable(f"{replay.path}: {state}, {pluralize(len(replay.moves), 'ply')}"))
        echo(UNPROVEN)
    if replay.notice and not call.as_json:
        echo(replay.notice)
    return 1 if difference else 0


SUFFIXES = frozenset({".jsonl", ".json", ".parquet", ".csv", ".html", ".txt"})
"""Suffixes with a known meaning; a file of another format must not have one of them."""
NAMED = 10
"""Files that were left out and are named; the rest is counted. --json names all."""


def export(call: Call) -> int:
    """Write the replays to one file; an existing one is replaced when the new one is complete."""
    from trainers.export import exporter_class
    from trainers.export.exporter import export_replays

    data = call.data
    if not call.paths:
        raise UsageError("missing argument: PATH; arena replay PATH… --export FORMAT")
    make = exporter_class(data.export or "")
    out = data.out or Path(f"replays-{make.suffix}")
    suffix = Path(make.suffix).suffix
    if out.suffix.lower() in SUFFIXES - {suffix}:
        raise UsageError(
            f"--out {out}: --export {data.export} writes {suffix}; name the file "
            f"{out.with_suffix(suffix)}"
        )
    with counter("replays") as count:
        exported = export_replays(call.paths, out, make, data.reward or "", count)
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
    counts = {"rows": exported.rows, "games": exported.games, "copies": exported.copies}
    left_out = [{"path": str(each.path), "reason": each.reason} for each in exported.skipped]
    rows, games = pluralize(exported.rows, "row"), pluralize(exported.games, "game")
    text = printable(f"wrote {rows} of {games} to {exported.file}")
    print_result(as_json, {**counts, "skipped": left_out, "file": str(exported.file)}, text)
