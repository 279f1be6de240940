"""The browser that draws the frames: a Chromium of this machine, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from arena.core.errors import ArenaError
from arena.core.text import shorten
from replays.film.options import FilmOptions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright, Route

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
CHANNELS = ("chrome", "msedge")
"""Browsers that Playwright finds where Windows and macOS keep programs."""
ADDRESS = "http://localhost/film"
"""Address of the page. No request leaves the browser, so nothing has to answer there."""
DRAWN_WIDTH, DRAWN_HEIGHT = 960, 540
"""The page is laid out for this size and then drawn larger or smaller."""


def installed_chromium() -> str | None:
    """Return the path of a Chromium, Chrome or Edge in PATH."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class FilmedPage:
    """An open page, which shows one position after the other."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def picture(self, position: int) -> bytes:
        """Return a PNG of a position, once the page says that it has drawn it."""
        shown = self._page.evaluate("async (at) => (await film).show(at)", position)
        if shown != position:
            raise ArenaError(f"the page shows position {shown} instead of {position}")
        return self._page.screenshot(animations="disabled")


@contextmanager
def open_page(html: str, options: FilmOptions) -> Iterator[FilmedPage]:
    """Open the page in a browser without a window and prepare it for the film.

    Raises:
        ArenaError: There is no browser, it does not start, or the page fails.
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
                yield FilmedPage(page)
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


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
