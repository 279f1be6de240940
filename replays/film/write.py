"""One film, from a replay to a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from arena import Replay
from arena.episodes.files import open_draft
from arena.plugins.extras import require
from replays.film.browser import open_page
from replays.film.gif import gif_sink
from replays.film.mp4 import mp4_sink
from replays.film.options import FilmFormat, FilmOptions
from replays.film.page import film_page

PACKAGES: dict[FilmFormat, tuple[str, ...]] = {
    "gif": ("playwright", "PIL"),
    "mp4": ("playwright", "imageio_ffmpeg"),
}
SINKS = {"gif": gif_sink, "mp4": mp4_sink}


@dataclass(frozen=True, slots=True)
class FilmResult:
    """A film that was written.

    Attributes:
        file: The file.
        frames: The number of positions that it shows.
        seconds: Its length.
        bytes: Its size.
    """

    file: Path
    frames: int
    seconds: float
    bytes: int


def write_film(
    replay: Replay,
    seat: int | None,
    film_format: FilmFormat,
    options: FilmOptions,
    out: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> FilmResult:
    """Write the film atomically; after an error, `out` is unchanged.

    Args:
        replay: The game.
        seat: Only what this seat could know; None: everything open.
        film_format: The kind of file.
        options: What the film shows.
        out: The file to write.
        on_progress: Called after each frame with the number of frames done and their total.

    Raises:
        MissingDependency: A package of the extra `film` is not installed.
        ReplayError: The replay cannot be played.
        ArenaError: There is no browser, it fails, or the file cannot be written.
    """
    require(f"--export {film_format}", PACKAGES[film_format], "film")
    total = len(options.positions)
    # The file comes first: an error about it must not come after minutes of work.
    with (
        open_draft(out) as file,
        open_page(film_page(replay, seat), options) as filmed,
        SINKS[film_format](file, options) as sink,
    ):
        for done, position in enumerate(options.positions, start=1):
            sink.add(filmed.picture(position))
            on_progress(done, total)
    return FilmResult(out, total, sum(options.durations), out.stat().st_size)
