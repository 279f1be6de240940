"""The system's Chromium, driven by Playwright, for tests and for pictures."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote
from weakref import WeakKeyDictionary

import pytest

from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match
from arena.plugins.catalog import make_game

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Expect, Locator, Page

WIDE, NARROW = (1280, 900), (390, 844)
PATIENCE = 30.0
"""Seconds that a page may take for anything. Only a test that fails waits that long."""


NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def installed_chromium() -> str | None:
    """Return the path of a Chromium or Chrome in PATH."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def missing() -> str | None:
    """Why no browser can be driven here, if so."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed: pip install playwright"
    if installed_chromium() is None:
        return f"no Chromium here: none of {', '.join(NAMES)} is in PATH"
    return None


if TYPE_CHECKING:
    expect: Expect
else:

    def expect(part: Locator | Page) -> Any:
        """Return Playwright's assertions about a part of a page, which wait until they hold.

        Playwright is imported by the call, since the package may be missing.
        """
        from playwright.sync_api import expect as waiting

        return waiting(part)


@contextmanager
def browsing() -> Iterator[Browser]:
    from playwright.sync_api import expect as waiting
    from playwright.sync_api import sync_playwright

    waiting.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(
            executable_path=installed_chromium(),
            timeout=2000 * PATIENCE,
            args=arguments,
            # Without a window Chromium has no scroll bars, which take room.
            ignore_default_args=["--hide-scrollbars"],
        )
        yield browser
        browser.close()


@dataclass
class Tab:
    """A page, and what it has been sent and has complained about."""

    page: Page
    faults: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    """Every document that came from the server."""
    aborted: list[str] = field(default_factory=list)
    """Addresses of documents that the browser calls aborted. The page may have them nonetheless:
    Chromium says so of a stream too that was read to its end."""
    closing: bool = False
    asked: int = 0
    """Requests for documents of the server."""
    answered: int = 0
    """Those that have ended: their documents are in `bodies`, or they are `aborted`."""
    pages: int = 0
    """Pages that were opened in this tab."""
    origins: set[str] = field(default_factory=set)
    """Servers that it has asked."""

    def listen(self) -> None:
        from playwright.sync_api import Error

        asked_by: dict[Any, int] = {}

        def navigated(frame: Any) -> None:
            self.pages += frame.url == "about:blank"

        def began(request: Any) -> None:
            # A change of the fragment of the address opens no page, and asks for none.
            self.pages += request.is_navigation_request()
            self.origins.add("/".join(request.url.split("/")[:3]))
            if "/api/" in request.url:
                self.asked += 1
                asked_by[request] = self.pages

        def failed(request: Any) -> None:
            if "/api/" in request.url:
                self.aborted.append(request.url)
                self.answered += 1

        def finished(request: Any) -> None:
            if "/api/" in request.url:
                try:
                    self.bodies.append(request.response().text())
                except Error:
                    # With its page, the browser drops what has just arrived.
                    if not self.closing and self.pages == asked_by[request]:
                        raise
                self.answered += 1

        def said(message: Any) -> None:
            if message.type == "error":
                self.faults.append(message.text)

        self.page.on("framenavigated", navigated)
        self.page.on("request", began)
        self.page.on("requestfailed", failed)
        self.page.on("requestfinished", finished)
        self.page.on("console", said)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))

    def wait_for_position(self, position: int) -> None:
        """Wait until a position is shown: by all panels, since the controls are drawn last."""
        self.page.locator(f".where strong:text-is('{position}')").wait_for()

    def wait_for_paint(self) -> None:
        """Wait until the page has been drawn; Chromium ignores keys and clicks before."""
        self.page.evaluate(DRAWN)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait for what no assertion of `expect` can tell: sizes, colours, requests."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"it never held within {PATIENCE} seconds"
            self.page.wait_for_timeout(20)

    def wait_until_quiet(self) -> None:
        """Wait until nothing more will come: for what must not be on the page.

        Then the panels' pauses are over, all documents that they asked for have arrived, and they
        are drawn. The pauses are measured by the page's own clock, so that a slow page has them
        behind it as well. A page that goes on asking, as that of a running game, is never quiet.
        """
        before = -1

        def is_quiet() -> bool:
            nonlocal before
            settled = before == self.asked == self.answered
            before = self.asked
            self.page.evaluate(PAUSED)
            self.page.evaluate(DRAWN)
            return settled and before == self.asked == self.answered

        self.wait_until(is_quiet)

    @contextmanager
    def stopped_clock(self) -> Iterator[None]:
        """Stop the page's clock, which `page.clock.install` has set up: no timer ends by itself."""
        # The clock can only be stopped in the future, in seconds here.
        self.page.clock.pause_at(float(self.page.evaluate("Date.now() / 1000")) + 3600)
        yield
        self.page.clock.resume()

    def unfold(self) -> None:
        """Open all that is folded, and wait until its content is there."""
        self.page.evaluate(UNFOLDED)

    def html(self) -> str:
        return str(self.page.evaluate("document.documentElement.outerHTML"))

    def overflow(self) -> int:
        """By how much the page is wider than the screen."""
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(width))


DRAWN = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
# More than any pause of the panels before they ask for a document.
PAUSED = "new Promise((over) => setTimeout(over, 150))"
# The page's own listeners are older, so that they are called before.
UNFOLDED = """Promise.all([...document.querySelectorAll('details:not([open])')].map((each) =>
    new Promise((done) => {
        each.addEventListener('toggle', done, { once: true });
        each.open = true;
    })))"""


free_windows: WeakKeyDictionary[Browser, BrowserContext] = WeakKeyDictionary()
"""The window of each browser that no tab uses."""


@contextmanager
def tab(
    browser: Browser,
    size: tuple[int, int] = WIDE,
    scheme: Literal["light", "dark"] = "light",
    own_window: bool = False,
) -> Iterator[Tab]:
    """Open a page in a window that has no other page, and stores nothing of earlier ones.

    A window costs Chromium a second, for controls that nothing shows, so that the next tab gets
    the same one. One with settings that last, such as a clock, is the tab's `own_window`.
    """
    context = None if own_window else free_windows.pop(browser, None)
    if context is None:
        context = browser.new_context(reduced_motion="reduce")
        context.set_default_timeout(1000 * PATIENCE)
        if not own_window:
            context.new_page()  # The window stays open with this page.
    page = context.new_page()
    width, height = size
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    opened = Tab(page)
    opened.listen()
    yield opened
    opened.closing = True
    if own_window or browser in free_windows:
        context.close()
    else:
        page.close()
        _forget(context, opened.origins)
        free_windows[browser] = context


def _forget(context: BrowserContext, origins: set[str]) -> None:
    """Empty what a window stores of these origins."""
    [page] = context.pages
    session = context.new_cdp_session(page)
    for origin in origins:
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    session.detach()


def axe_findings(page: Page, *ignored: str) -> list[str]:
    """Return what axe-core finds on a page, without findings of the impacts `ignored`."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is missing")
    found = axe.Axe().run(page).response
    assert found["passes"]
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found["violations"]
        if each["impact"] not in ignored
        for node in each["nodes"]
    ]


def address(port: int, path: str, **place: int) -> str:
    """Of a position."""
    more = "".join(f"&{name}={value}" for name, value in place.items())
    return f"http://127.0.0.1:{port}/#path={quote(path, safe='')}{more}"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def a_long_game(folder: Path, events: int) -> Path:
    """A card game in which everybody asks and nobody accuses, with at least so many events."""
    import asyncio
    import random

    from arena.core.event import Decision
    from arena.core.observation import Observation
    from arena.episodes.match import play

    class Asking:
        """Makes up questions, and has no opinion."""

        def __init__(self, seat: int) -> None:
            self._rng = random.Random(seat)

        async def act(self, observation: Observation) -> Decision:
            legal = [a for a in observation.legal_actions if not str(a).startswith("accuse")]
            asking = [action for action in legal if str(action).startswith("suggest")]
            return Decision(self._rng.choice(asking or legal))

    game, writer = make_game("cluedo", variant="cards", players=4), ReplayWriter(folder, "long")
    turns = events * 24 // 100
    asking = [Asking(seat) for seat in range(4)]
    asyncio.run(play(Match(game, (), 5, max_turns=turns), asking, watchers=[writer]))
    return writer.path


def with_attempts(
    lines: list[dict[str, Any]], player: int, text: str, **more: Any
) -> list[dict[str, Any]]:
    """The same replay, as if a model had made this player's moves, which writes `text` a lot."""
    made: list[dict[str, Any]] = []
    for line in lines:
        if line["type"] == "decision" and line["player"] == player:
            refused: dict[str, Any] = {
                "messages": [
                    {"role": "system", "content": f"The rules. {text}"},
                    {"role": "user", "content": f"Position {line['ply']}. {text}"},
                ],
                "reply": f"Perhaps. {text}",
                "reasoning": f"Because. {text}",
                "refusal": text,
                "failure": "unparsable",
                "excerpt": text,
                "model": text,
            }
            accepted = {
                "kept": 2,
                "messages": [{"role": "user", "content": f"Answer with one action. {text}"}],
                "reply": str(line["action"]),
                "model": text,
                "policy_version": 3,
                "prompt_tokens": 812,
                "completion_tokens": 3,
                "cost": 0.0021,
                "seconds": 0.8,
                "tokens": [[5, -0.1, -0.1], [7, -1.5, -1.5], [None, -0.01, -0.01]],
            }
            made.append(line | {"details": {"attempts": [refused, accepted], **more}})
        else:
            made.append(line)
    return made
