"""`arena replay FILE --export mp4` and `--export gif`: a film of one game."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.common.terminal import echo, progress_bar
from arena.cli.replaying.look import moment
from arena.core.errors import UsageError
from arena.core.text import pluralize, printable

if TYPE_CHECKING:
    from arena.cli.replaying.call import Call
    from arena.episodes.replay import Replay
    from replays.film import FilmFormat, FilmOptions


def film(call: Call) -> int:
    """Write the film; an existing file is replaced when the new one is complete."""
    from replays.film.write import write_film

    film_format: FilmFormat = "gif" if call.data.export == "gif" else "mp4"
    replay, first, seat = moment(call)
    options = _options(call, film_format, replay, first)
    out = _out_file(call.data.out, film_format, replay, seat)
    with progress_bar(transient=True) as progress:
        bar = progress.add_task("frames", total=None)
        made = write_film(
            replay,
            seat,
            film_format,
            options,
            out,
            lambda done, total: progress.update(bar, completed=done, total=total),
        )
    if call.as_json:
        figures = {"frames": made.frames, "seconds": made.seconds, "bytes": made.bytes}
        print(json.dumps({**figures, "file": str(made.file)}))
    else:
        positions, size = pluralize(made.frames, "position"), f"{made.bytes / 1e6:.1f} MB"
        echo(printable(f"wrote {positions}, {made.seconds:.0f} s, {size} to {made.file}"))
    return 0


def _options(call: Call, film_format: FilmFormat, replay: Replay, first: int | None) -> FilmOptions:
    from replays.film import FilmOptions, FrameSize

    until, last = call.film.until, len(replay.moves)
    if until is not None and until > last:
        plies = pluralize(last, "ply")
        raise UsageError(f"--until {until}: {replay.path} has {plies}")
    size = FrameSize.parse(call.film.size) if call.film.size else None
    film = call.film
    return FilmOptions.of(replay, film_format, first, until, size, film.seconds, film.dark)


def _out_file(out: Path | None, film_format: FilmFormat, replay: Replay, seat: int | None) -> Path:
    """Return --out or its default. Raises UsageError for a file that the film cannot be."""
    if out is None:
        # The name of a replay contains the seed, which determines the deal.
        game = replay.header.game.replace("/", "-")
        name = replay.path.name.removesuffix(".part").removesuffix(".jsonl")
        out = Path(f"{name if seat is None else f'{game}-seat{seat}'}.{film_format}")
    if out.suffix.lower() != f".{film_format}":
        raise UsageError(
            f"--out {out}: --export {film_format} writes .{film_format}; name the file "
            f"{out.with_suffix(f'.{film_format}')}"
        )
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: no file can be written there")
    return out
