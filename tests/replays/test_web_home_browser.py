"""The home page and its views, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from browsing import NARROW, axe_findings, expect, tab
from home_folder import ATTACK, fill_folder, write_records, write_run
from training_rows import rows
from web_viewer import WebViewer, record, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

RUN = "#run=train%2Ffirst"
EVALUATION = "#experiment=eval%2Fstrong"


@dataclass(frozen=True)
class Home:
    folder: Path
    viewer: WebViewer

    def at(self, fragment: str = "") -> str:
        return f"http://127.0.0.1:{self.viewer.port}/{fragment}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("home") / "runs"
    # In another thread, because the browser's event loop may run in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fill_folder, folder).result()
    with serving(folder) as viewer:
        yield Home(folder, viewer)


def test_everything_is_grouped_searched_and_opened(browser: Browser, home: Home) -> None:
    from playwright.sync_api import TimeoutError

    with tab(browser) as opened:
        page = opened.page
        page.goto(home.at())
        page.get_by_role("heading", name="Training runs").wait_for()
        # The folder is read in parts.
        expect(page.locator(".group h2")).to_have_text([
            "Training runs 4", "Evaluations 5", "Tournaments 1", "Games 3",
        ])  # fmt: skip
        expect(page.locator(".is-unreadable .entry-error")).to_have_count(2)
        page.get_by_label("Search").fill("bot:str")
        expect(page.locator(".entry .name")).to_have_text(["bot:strong"])
        link = page.get_by_role("link", name="bot:strong")
        heading = page.get_by_role("heading", name="bot:strong")
        link.click()
        try:
            heading.wait_for(timeout=10_000)
        except TimeoutError:
            # A list that is drawn anew between press and release loses the click.
            link.click()
            heading.wait_for()
        page.get_by_role("link", name="Full report").click()
        expect(page).to_have_url(re.compile("/report/"))  # Its heading is that of the view.
        page.get_by_role("heading", name="bot:strong").wait_for()
        page.go_back()
        expect(page.locator(".verdict")).to_contain_text("Primary result")
        page.locator(".figure-card svg path").nth(3).wait_for(state="attached")
        page.go_back()
        page.get_by_label("Search").fill("")
        page.get_by_role("link", name="All 3 games").click()
        page.locator(".rows .row").nth(2).wait_for()
        page.get_by_role("link", name="Home").click()
        page.locator(".few .row a").first.click()
        page.locator(".where strong").wait_for()
        page.get_by_role("link", name="arena").click()
        page.locator(".group").first.wait_for()
        assert not opened.faults


def test_curves_grow_while_the_run_goes_on(browser: Browser, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(record, tmp_path, "game").result()
    with serving(tmp_path) as viewer, tab(browser, own_window=True) as opened:
        page = opened.page
        page.clock.install()
        page.goto(f"http://127.0.0.1:{viewer.port}/")
        page.locator(".rows .row").wait_for()  # Games only: their list is the home page.
        files = write_run(tmp_path / "run", rows(4))
        page.clock.fast_forward(6_000)
        page.get_by_role("link", name="run", exact=True).click()
        page.locator(".facts", has_text="4,").or_(
            page.locator(".facts", has_text="step 4")
        ).wait_for()
        line = page.locator(".figure-card svg .line").nth(1)
        before = line.get_attribute("d")
        page.evaluate("window.kept = document.querySelector('.view')")
        write_records(files, rows(9))
        page.clock.fast_forward(8_000)
        page.locator(f'.figure-card svg .line:not([d="{before}"])').nth(1).wait_for()
        page.locator(".figure-card", has_text="Win rate in training").wait_for()
        assert page.evaluate("window.kept === document.querySelector('.view')")
        assert not opened.faults


def test_hostile_texts_stay_text(browser: Browser, home: Home) -> None:
    with tab(browser) as opened:
        page = opened.page
        page.goto(home.at())
        page.get_by_text(ATTACK).first.wait_for()
        page.get_by_role("link", name=ATTACK).first.click()
        page.locator(".view-head h1", has_text=ATTACK).wait_for()
        page.goto("about:blank")
        page.goto(home.at(f"#experiment={_hostile('eval')}"))
        page.locator(".figure-card svg text", has_text="<img").first.wait_for()
        opened.wait_until_quiet()
        expect(page.locator("main img, main script, main iframe")).to_have_count(0)
        page.goto(home.at(f"report/experiment/{_hostile('eval/report')}"))
        page.get_by_text(ATTACK).first.wait_for()
        assert page.evaluate("window.hacked") is None and page.evaluate("self.origin") == "null"
        assert not opened.faults, opened.faults


def _hostile(path: str) -> str:
    from urllib.parse import quote

    return quote(f"hostile {ATTACK}/{path}", safe="")


def test_what_does_not_exist_is_reported(browser: Browser, home: Home) -> None:
    with tab(browser) as opened:
        opened.page.goto(home.at("#run=nowhere"))
        opened.page.get_by_role("alert").get_by_text("no such").wait_for()


LOOKS: list[tuple[tuple[int, int], Literal["light", "dark"], dict[str, str]]] = [
    (NARROW, "dark", {"": ".entry", RUN: ".view-section"}),
    (
        (1440, 900),
        "light",
        {"": ".entry", EVALUATION: ".view-section", "#list=games": ".rows .row"},
    ),
]


@pytest.mark.parametrize(("size", "scheme", "places"), LOOKS)
def test_every_page_fits_and_is_accessible(
    browser: Browser,
    home: Home,
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
    places: dict[str, str],
) -> None:
    with tab(browser, size=size, scheme=scheme) as opened:
        for fragment, drawn in places.items():
            opened.page.goto("about:blank")
            opened.page.goto(home.at(fragment))
            opened.page.locator(drawn).first.wait_for()
            opened.wait_until_quiet()
            assert opened.overflow() == 0, fragment
            assert not axe_findings(opened.page, "minor")
