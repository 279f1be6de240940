"""One film, from a replay to a file: a Chromium of this machine, driven by Playwright, draws it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arena import Replay
from arena.core.errors import ArenaError
from arena.core.text import shorten
from arena.episodes.files import open_draft
from arena.plugins.catalog import require
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.film import FilmFormat, FilmOptions
from replays.film.encoders import gif_sink, mp4_sink
from replays.web.bundle import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright, Route

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
CHANNELS = ("chrome", "msedge")
"""Browsers that Playwright finds where Windows and macOS keep programs."""
ADDRESS = "http://localhost/film"
"""Address of the page. No request leaves the browser, so nothing has to answer there."""
DRAWN_WIDTH, DRAWN_HEIGHT = 960, 540
"""The page is laid out for this size and then drawn larger or smaller."""
FILM_INDEX = "film.html"
PACKAGES: dict[FilmFormat, tuple[str, ...]] = {
    "gif": ("playwright", "PIL"),
    "mp4": ("playwright", "imageio_ffmpeg"),
}
SINKS = {"gif": gif_sink, "mp4": mp4_sink}


def installed_chromium() -> str | None:
    """Return the path of a Chromium, Chrome or Edge in PATH."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def open_page(html: str, options: FilmOptions) -> Iterator[Page]:
    """Open the page in a browser without a window and prepare it for the film.

    Raises ArenaError if there is no browser, it does not start, or the page fails.
    """
    from playwright.sync_api import Error, sync_playwright

    try:
        with sync_playwright() as playwright:
            browser = _launch(playwright)
            try:
                page = _open(browser, html, options)
                # The same size for all positions: the table must not jump.
                page.evaluate(
                    "async ([first, last]) => (await film).fit(first, last)",
                    [options.first, options.last],
                )
                yield page
            finally:
                with suppress(Error):  # After a crash there is nothing to close.
                    browser.close()
    except Error as error:
        raise ArenaError(f"the browser failed: {shorten(_first_line(error))}") from error


def _launch(playwright: Playwright) -> Browser:
    """Start a browser in PATH, or else the one that Playwright has fetched."""
    from playwright.sync_api import Error

    path = installed_chromium()
    choices: list[dict[str, str]] = [{"executable_path": path}] if path else []
    choices += [{}, *({"channel": channel} for channel in CHANNELS)]
    failure = ""
    for choice in choices:
        try:
            # Ctrl-C ends the whole command, which closes the browser.
            return playwright.chromium.launch(
                args=["--disable-gpu"],
                handle_sigint=False,
                **choice,  # type: ignore[arg-type]
            )
        except Error as error:
            if choice.get("executable_path"):
                failure = f"; {path} does not start: {shorten(_first_line(error))}"
    raise ArenaError(
        "a film needs a browser, which draws its frames, and none was found: run `playwright "
        f"install chromium`, or install Chromium, Chrome or Edge{failure}"
    )


def _open(browser: Browser, html: str, options: FilmOptions) -> Page:
    size = options.size
    scale = min(size.width / DRAWN_WIDTH, size.height / DRAWN_HEIGHT)
    context = browser.new_context(
        viewport={"width": round(size.width / scale), "height": round(size.height / scale)},
        device_scale_factor=scale,
        color_scheme="dark" if options.dark else "light",
        reduced_motion="reduce",
        service_workers="block",
    )

    def answer(route: Route) -> None:
        if route.request.url == ADDRESS:
            route.fulfill(body=html, content_type="text/html; charset=utf-8")
        else:
            route.abort()

    context.route("**/*", answer)
    page = context.new_page()
    page.goto(ADDRESS)
    return page


def take_picture(page: Page, position: int) -> bytes:
    """Return a PNG of a position, once the page says that it has drawn it."""
    shown = page.evaluate("async (at) => (await film).show(at)", position)
    if shown != position:
        raise ArenaError(f"the page shows position {shown} instead of {position}")
    return page.screenshot(animations="disabled")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def film_page(replay: Replay, seat: int | None) -> str:
    """Return a page with the documents of one perspective; None: everything open.

    Raises ReplayError if the replay cannot be played.
    """
    analysis = ReplayAnalysis(replay)
    timeline = analysis.timeline(seat)
    players = range(len(replay.header.players)) if seat is None else [seat]
    posteriors = {str(player): analysis.posterior(player) for player in players}
    key = "open" if seat is None else str(seat)
    data = {"timelines": {key: timeline}, "posteriors": posteriors}
    return render(data, timeline["game"]["scene"], FILM_INDEX)


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
    """Write the film atomically, as a seat may see it; after an error, `out` is unchanged.

    `on_progress` is called after each frame with the number of frames done and their total.

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
        open_page(film_page(replay, seat), options) as page,
        SINKS[film_format](file, options) as take_frame,
    ):
        for done, position in enumerate(options.positions, start=1):
            take_frame(take_picture(page, position))
            on_progress(done, total)
    return FilmResult(out, total, sum(options.durations), out.stat().st_size)
