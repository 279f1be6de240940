"""What stands on the page of a game, in a real browser."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from browsing import (
    NARROW,
    axe_findings,
    expect,
    tab,
)
from served_games import (
    CARDS,
    HOSTILE,
    STEPS,
    Served,
    last_position,
    open_game,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


def test_the_decision_shows_what_was_asked_and_answered(browser: Browser, served: Served) -> None:
    plies = served.analysis().timeline()["plies"]
    asked = [ply["ply"] for ply in plies if ply["has_requests"]]
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=asked[1] + 1))
        panel = opened.page.locator(".decision")
        panel.get_by_text("Attempt 2 of 2").wait_for()
        for part in (
            # The ply that leads to a position has its number.
            f" · ply {asked[1] + 1} · ",
            "unparsable",
            "accepted",
            "Because. I am thinking.",
            "812 in",
            f"Position {asked[1]}. I am thinking.",
            "2 messages as in the last request",
        ):
            expect(panel).to_contain_text(part, use_inner_text=True)
        open_game(opened, served.at(CARDS, at=1))
        opened.page.get_by_text("A chance move").wait_for()


def test_a_mistake_its_decision_and_its_judgement_meet(browser: Browser, served: Served) -> None:
    comments = [each for each in served.analysis().comments() if each["mistake"]]
    first = min(comments, key=lambda each: each["visible_from"])
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS))
        page = opened.page
        # Comments come one by one; the last mark shows that all mistakes are known.
        marks = len({each["visible_from"] for each in comments})
        page.locator(".ticks span").nth(marks - 1).wait_for(state="attached")
        page.keyboard.press("m")
        opened.wait_for_position(first["ply"] + 1)
        expect(page.locator(".decision .status")).to_contain_text(f"ply {first['ply'] + 1}")
        note = page.locator(".comments-now .comment.wrong")
        expect(note).to_contain_text(first["text"], use_inner_text=True)
        expect(note.locator(".chip.wrong")).to_have_attribute("title", re.compile("better"))
        page.get_by_text("All comments so far").click()
        page.locator(".all-comments").get_by_text("A mistake: exact knowledge").wait_for()
        page.get_by_text("In this game").click()
        page.get_by_text("A mistake is a question with less").wait_for()
        link = page.locator(".comments-all .link").first
        number = link.inner_text().split()[-1]
        link.click()
        opened.wait_for_position(int(number))


def test_the_grid_and_the_chart_say_what_was_known(browser: Browser, served: Served) -> None:
    known = served.analysis().posterior(1)
    assert known is not None
    entry = [each for each in known["entries"] if each["position"] <= 9][-1]
    assert entry["grid"] is not None
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=9, focus=1))
        page = opened.page
        page.locator(".legend li").nth(2).wait_for()
        cells = page.locator(".grid tbody tr:not(.kind) td")
        expect(cells).to_have_count(len(known["things"]) * len(known["places"]))
        signs = [text.strip() for text in cells.all_inner_texts()]
        for sign, share in zip(signs, chain(*entry["grid"]), strict=True):
            if share in (0, 1):
                assert sign.startswith("✓" if share else "–")
            else:
                assert abs(float(sign.strip("<>")) - 100 * share) <= 1
        page.locator(".figures summary").click()
        page.locator(".figures tbody tr").nth(1).wait_for()


@pytest.mark.parametrize("path", ["board.jsonl", "tictactoe.jsonl", "goofspiel.jsonl"])
def test_every_game_has_a_page(browser: Browser, served: Served, path: str) -> None:
    with tab(browser) as opened:
        open_game(opened, served.at(path))
        for key in STEPS:
            opened.page.keyboard.press(key)
        opened.page.keyboard.press("End")
        opened.wait_for_position(last_position(served, path))
        opened.page.locator(".outcome").wait_for()
        opened.page.locator(".summary td").first.wait_for()
        expect(opened.page.locator(".table-top > *")).to_have_count(1)
        assert not opened.faults


@pytest.mark.parametrize("path", [CARDS, "board.jsonl"])
def test_no_serious_finding_of_axe(browser: Browser, served: Served, path: str) -> None:
    with tab(browser) as opened:
        opened.page.goto(served.home)
        opened.page.locator(".rows .row").first.wait_for()
        assert not axe_findings(opened.page, "minor", "moderate")
        open_game(opened, served.at(path, at=last_position(served, path)))
        opened.page.locator(".grid td.sure").first.wait_for()
        opened.page.locator(".summary td").first.wait_for()
        opened.wait_until_quiet()
        assert not axe_findings(opened.page, "minor", "moderate")


def test_narrow_screens_do_not_scroll_sideways(browser: Browser, served: Served) -> None:
    with tab(browser, size=NARROW) as opened:
        opened.page.goto(served.home)
        opened.page.locator(".rows .row").first.wait_for()
        assert opened.overflow() == 0
        for path in (CARDS, "board.jsonl", HOSTILE):
            open_game(opened, served.at(path, at=20))
            for key in ("ArrowRight", "End"):
                opened.page.keyboard.press(key)
                opened.page.locator(".decision:not([aria-busy])").wait_for()
                assert opened.overflow() == 0, f"{path} after {key}"
