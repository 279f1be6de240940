"""The list and the moves through a game, in a real browser."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import (
    expect,
    tab,
)
from command_line import arena
from served_games import (
    CARDS,
    Served,
    last_position,
    open_game,
    wait_for_view,
)
from web_viewer import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

# The list


def test_an_empty_folder_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as viewer, tab(browser, own_window=True) as opened:
        opened.page.clock.install()
        opened.page.goto(f"http://127.0.0.1:{viewer.port}/")
        command = opened.page.get_by_text("arena play").inner_text()
        done = arena("", *shlex.split(command)[1:], cwd=tmp_path.parent)
        assert done.returncode == 0, done.stderr
        opened.page.clock.fast_forward(10_000)
        opened.page.locator(".rows .row", has_text="Novice").wait_for()
        (tmp_path / "new.jsonl").write_text('{"type":"header","schema_version":0}\n')
        opened.page.clock.fast_forward(10_000)
        # It looks for new ones by itself.
        opened.page.locator(".rows .row", has_text="Unreadable").wait_for()


# Moving


def test_steps_by_keys_buttons_and_slider(browser: Browser, served: Served) -> None:
    last = last_position(served)
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS))
        page = opened.page
        opened.wait_for_position(1)  # After the deal, which nobody decides.
        page.keyboard.press("Home")
        opened.wait_for_position(0)
        for key, position in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
            page.keyboard.press(key)
            opened.wait_for_position(position)
        page.keyboard.press("End")
        opened.wait_for_position(last)
        expect(page.locator(".event-list > li")).to_have_count(last)
        expect(page.locator("[aria-current=step]")).to_have_count(1)
        page.keyboard.press("Home")
        opened.wait_for_position(0)
        expect(page.locator(".event-list > li")).to_have_count(0)
        page.get_by_role("button", name="One ply forward").click()
        opened.wait_for_position(1)
        page.get_by_role("slider").fill("9")
        opened.wait_for_position(9)
        text = page.get_by_role("slider").get_attribute("aria-valuetext") or ""
        assert f"Position 9 of {last}" in text
        expect(page.locator("#announcements")).to_have_text(text)
        page.locator(".event-list button").nth(3).click()
        opened.wait_for_position(4)
        # Quick steps are gathered before they are in the address.
        expect(page).to_have_url(re.compile("at=4"))
        assert not opened.faults


def test_jumps_to_moves_mistakes_and_events(browser: Browser, served: Served) -> None:
    analysis = served.analysis()
    comments, plies = list(analysis.comments()), analysis.timeline()["plies"]
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS))
        page = opened.page
        page.get_by_label("Moves of seat").select_option("2")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Next move of this seat").click()
        opened.wait_for_position(next(p["ply"] + 1 for p in plies if p["player"] == 2))
        page.get_by_label("Kind of event").select_option("Accused")
        page.locator("h1").click()
        mistakes = [c["visible_from"] for c in comments if c["mistake"]]
        accused = [p["ply"] + 1 for p in plies for e in p["events"] if e["kind"] == "Accused"]
        targets = (("m", "mistake", mistakes), ("a", "event of this kind", accused))
        for key, wanted, found in targets:
            assert found, f"this game has no {wanted}"
            page.keyboard.press("Home")
            opened.wait_for_position(0)
            page.get_by_role("button", name=f"Next {wanted}").and_(
                page.locator("[aria-disabled=false]")
            ).wait_for()
            # Comments come one by one; the last mark shows that all mistakes are known.
            page.locator(".ticks span").nth(len(set(mistakes)) - 1).wait_for(state="attached")
            page.locator("h1").click()
            page.keyboard.press(key)
            opened.wait_for_position(min(found))
        expect(page.locator(".ticks span")).to_have_count(len(set(mistakes)))


def test_a_position_can_be_linked(browser: Browser, served: Served) -> None:
    last = last_position(served)
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=7, seat=2))
        opened.wait_for_position(7)
        wait_for_view(opened, 2)
        open_game(opened, served.at(CARDS, at=10**6, focus=50))
        opened.wait_for_position(last)
        wait_for_view(opened, None)
        opened.page.evaluate(f"location.hash = '#path={CARDS}&at=3&focus=2'")
        opened.wait_for_position(3)
        expect(opened.page.get_by_label("Probabilities for seat")).to_have_value("2")
        opened.page.goto(served.at("nowhere.jsonl"))
        opened.page.get_by_role("alert").get_by_text("no such replay").wait_for()
        # Nothing is offered that leads to the same fault.
        expect(opened.page.locator("main a")).to_have_text(["All games"])


def test_a_seats_address_does_not_name_the_file(browser: Browser, served: Served) -> None:
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=7))
        opened.page.keyboard.press("2")
        wait_for_view(opened, 2)
        expect(opened.page).to_have_url(re.compile("seat=2"))
        linked = opened.page.url
        assert "cards" not in linked and "path=" not in linked
        opened.wait_until_quiet()
        assert CARDS not in opened.html()
        open_game(opened, linked)
        opened.wait_for_position(7)
        wait_for_view(opened, 2)
        opened.page.keyboard.press("o")
        wait_for_view(opened, None)
        expect(opened.page).to_have_url(re.compile("path=cards.jsonl"))
        assert not opened.faults
