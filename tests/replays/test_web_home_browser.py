"""The home page and its views, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import NARROW, axe_findings, expect, tab
from home_folder import ATTACK, fill_folder, write_run
from training_rows import rows
from web_viewer import WebViewer, record, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

RUN = "report/run/train/first/report"
EVALUATION = "report/experiment/eval/strong/report"


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
        page.get_by_role("link", name="bot:strong").click()
        page.get_by_role("heading", name="bot:strong").wait_for()
        expect(page).to_have_url(re.compile("/report/"))
        expect(page.locator(".headline")).to_contain_text("bot:")
        page.get_by_role("rowheader", name="bot:strong").first.wait_for()
        page.get_by_role("link", name="Home").click()
        page.get_by_label("Search").fill("")
        page.get_by_role("link", name="Sort and filter").click()
        page.locator(".rows .row").nth(2).wait_for()
        page.get_by_role("link", name="Home").click()
        page.locator(".few .row a").first.click()
        page.locator(".where strong").wait_for()
        page.get_by_role("link", name="arena").click()
        page.locator(".group").first.wait_for()
        assert not opened.faults


def test_a_folder_of_games_gets_a_home_page_with_its_first_run(
    browser: Browser, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(record, tmp_path, "game").result()
    with serving(tmp_path) as viewer, tab(browser, own_window=True) as opened:
        page = opened.page
        page.clock.install()
        page.goto(f"http://127.0.0.1:{viewer.port}/")
        page.locator(".rows .row").wait_for()  # Games only: their list is the home page.
        write_run(tmp_path / "run", rows(4))
        page.clock.fast_forward(6_000)
        page.get_by_role("link", name="run", exact=True).wait_for()
        assert not opened.faults


def test_hostile_texts_stay_text(browser: Browser, home: Home) -> None:
    with tab(browser) as opened:
        page = opened.page
        page.goto(home.at())
        page.get_by_text(ATTACK).first.wait_for()
        expect(page.locator("main img, main script, main iframe")).to_have_count(0)
        page.get_by_role("link", name=ATTACK).first.click()
        page.locator("h1", has_text=ATTACK).wait_for()
        page.goto(home.at(f"report/experiment/{_hostile('eval/report')}"))
        page.get_by_text(ATTACK).first.wait_for()
        assert page.evaluate("window.hacked") is None and page.evaluate("self.origin") == "null"
        assert not opened.faults, opened.faults


def _hostile(path: str) -> str:
    from urllib.parse import quote

    return quote(f"hostile {ATTACK}/{path}", safe="")


@pytest.mark.parametrize("look", [(NARROW, "dark"), ((1440, 900), "light")], ids=str)
def test_every_page_fits_and_is_accessible(
    browser: Browser, home: Home, tmp_path: Path, look: tuple[Any, Any]
) -> None:
    size, scheme = look
    # No script runs in a served report, so its checks need a file.
    reports = {path: tmp_path / f"{number}.html" for number, path in enumerate((RUN, EVALUATION))}
    with ThreadPoolExecutor(1) as pool:
        for path, file in reports.items():
            file.write_bytes(pool.submit(home.viewer.get, f"/{path}").result().body)
    places = {
        home.at(): ".entry",
        home.at("#list=games"): ".rows .row",
        **{file.as_uri(): "section" for file in reports.values()},
    }
    with tab(browser, size=size, scheme=scheme) as opened:
        for address, drawn in places.items():
            opened.page.goto("about:blank")
            opened.page.goto(address)
            opened.page.locator(drawn).first.wait_for()
            opened.wait_until_quiet()
            assert opened.overflow() == 0, address
            assert not axe_findings(opened.page, "minor"), address
