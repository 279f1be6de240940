"""`arena replay`: look at finished games, check them, export them as data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.options import OutputOptions
from arena.cli.terminal import counter, echo, print_copies, print_result
from arena.core.errors import UsageError
from arena.core.text import pluralize, printable
from arena.llm.config import Config, argument, setting

if TYPE_CHECKING:
    from arena.episodes.replay import Replay
    from trainers.export.exporter import ExportResult

SUFFIXES = frozenset({".jsonl", ".json", ".parquet", ".csv", ".html", ".txt"})
"""Suffixes with a known meaning; a file of another format must not have one of them."""
NAMED = 10
"""Files that were left out and are named; the rest is counted. --json names all."""


class ReplayOptions(Config):
    """One replay."""

    path: Path = argument(metavar="FILE")
    """A replay (.jsonl)."""

    def replay(self) -> Replay:
        """Read the replay. Raises ReplayError for another file, UsageError for a folder."""
        from arena.episodes.replay import read_replay

        if self.path.is_dir():
            raise UsageError(
                f"{self.path} is a folder, and this takes one file; `arena replay {self.path} "
                "--web` lists what is in it"
            )
        return read_replay(self.path)


class ViewOptions(ReplayOptions):
    """Options of `arena replay view`."""

    path: Path = argument()
    """A replay (.jsonl); with --web also a folder of them."""
    position: int | None = setting(None, ge=0)
    """Position N, after N plies."""
    seat: int | None = setting(None, ge=0)
    """Only what this seat could see."""
    web: bool = setting(False, flag="--web")
    """Serve a page to a browser on this machine."""
    port: int = setting(8765, ge=0, le=65535)
    """With --web: the port; 0: any that is free."""
    html: Path | None = setting(None)
    """Write the page with this one game to a file that works offline."""

    def moment(self) -> tuple[Replay, int | None, int | None]:
        """Return the replay, --position and --seat; raises UsageError for what it lacks."""
        replay = self.replay()
        if self.position is not None and self.position > len(replay.moves):
            plies = pluralize(len(replay.moves), "ply")
            raise UsageError(f"--position {self.position}: {replay.path} has {plies}")
        if self.seat is not None and self.seat >= (seats := replay.make_game().num_players):
            raise UsageError(f"--seat {self.seat}: {replay.path} has seats 0 to {seats - 1}")
        return replay, self.position, self.seat


def view(options: ViewOptions) -> int:
    """Step through a replay in the terminal, or show it in a browser.

    arena replay FILE --position 20 --seat 0

    arena replay FOLDER --web
    """
    if options.web and options.html:
        raise UsageError("--html and --web: one of them at a time")
    if options.web:
        from replays.web import serve

        return serve(options.path, options.port, _fragment(options))
    replay, ply, seat = options.moment()
    if options.html is None:
        from replays.tui.viewer import step_through

        step_through(replay, ply, seat)
    elif ply is not None:
        raise UsageError("--position goes with --web or the terminal, not with --html")
    else:
        from replays.web.bundle import write_bundle

        write_bundle(replay, seat, options.html)
    return 0


def _fragment(options: ViewOptions) -> str:
    """Return the fragment of the page's address for --position and --seat; "" without them."""
    if options.position is None and options.seat is None:
        return ""
    if options.path.is_dir():
        raise UsageError("--position and --seat with --web: name the replay that they are about")
    _, ply, seat = options.moment()
    fields = {"at": ply, "seat": seat}
    return "#" + "&".join(f"{name}={value}" for name, value in fields.items() if value is not None)


class VerifyReplayOptions(ReplayOptions, OutputOptions):
    """Options of `arena replay verify`."""


def verify_replay(options: VerifyReplayOptions) -> int:
    """Play the game again by the rules; exit with 1 at the first difference, which is named."""
    from arena.episodes.replay import UNPROVEN, verify

    replay = options.replay()
    difference = verify(replay)
    if options.as_json:
        found = {"verified": difference is None, "difference": difference, "unproven": UNPROVEN}
        complete = replay.outcome is not None
        print(json.dumps({"replay": str(replay.path), **found, "complete": complete}))
    elif difference:
        echo(printable(f"{replay.path}: differs at {difference}"))
    else:
        state = "verified" if replay.outcome else "verified as far as it goes"
        echo(printable(f"{replay.path}: {state}, {pluralize(len(replay.moves), 'ply')}"))
        echo(UNPROVEN)
    if replay.notice and not options.as_json:
        echo(replay.notice)
    return 1 if difference else 0


class ExportOptions(OutputOptions):
    """Options of `arena replay export`."""

    paths: list[Path] = argument(metavar="PATH...")
    """Replays (.jsonl), or folders of them."""
    format: str = setting("chat")
    """chat or parquet: what models read and wrote."""
    reward: str = setting("")
    """TERM=WEIGHT,…: what the column 'reward' holds, in the words of arena train --reward. Default:
    the game's own reward."""
    out: Path | None = setting(None)
    """File of the data."""


def export(options: ExportOptions) -> int:
    """Write the replays to one file; an existing one is replaced when the new one is complete.

    arena replay export FOLDER --format chat --out games.jsonl
    """
    from trainers.export.exporter import export_format, export_replays

    form = export_format(options.format)
    out, suffix = options.out or Path(f"replays-{form.suffix}"), Path(form.suffix).suffix
    if out.suffix.lower() in SUFFIXES - {suffix}:
        raise UsageError(
            f"--out {out}: --format {options.format} writes {suffix}; name the file "
            f"{out.with_suffix(suffix)}"
        )
    with counter("replays") as count:
        exported = export_replays(options.paths, out, form, options.reward, count)
    _print_result(exported, options.as_json)
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
