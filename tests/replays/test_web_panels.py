"""What stands on the page of a game, in a real browser."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from browsing import (
    NARROW,
    Tab,
    address,
    axe_findings,
    box_of,
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
    wait_for_view,
)
from web_viewer import record, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

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
            "policy version",
            "812 in",
            f"Position {asked[1]}. I am thinking.",
            "least likely: token 2",
            "2 messages as in the last request",
        ):
            expect(panel).to_contain_text(part, use_inner_text=True)
        panel.locator("ins").first.wait_for(state="attached")
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


@pytest.mark.parametrize("seat", [None, 0])
def test_all_panels_say_the_same_turn(browser: Browser, served: Served, seat: int | None) -> None:
    """After a ply that has ended a turn, the next one is on."""
    plies = served.analysis().timeline()["plies"]
    ends = [p["ply"] + 1 for p in plies if p["events"][-1]["kind"] == "TurnBegan"][2:4]
    with tab(browser) as opened:
        place = {} if seat is None else {"seat": seat}
        open_game(opened, served.at(CARDS, at=ends[0], **place))
        page = opened.page
        page.locator(".cluedo").wait_for()
        for position in ends:
            page.get_by_role("slider").fill(str(position))
            opened.wait_for_position(position)
            turn = plies[position]["turn"]
            expect(page.locator(".scene .status")).to_have_text(re.compile(f"^Turn {turn}"))
            expect(page.locator(".cluedo")).to_contain_text(f"Turn {turn}, ", use_inner_text=True)
            # The panels are drawn one after the other.
            expect(page.locator(".events .turn").last).to_have_text(re.compile(f"^Turn {turn}: "))
            headings = page.locator(".events .turn").all_text_contents()
            named = page.locator(".events").get_by_text(f"Turn {turn}", exact=False)
            expect(named).to_have_count(1)
            page.keyboard.press("ArrowRight")
            opened.wait_for_position(position + 1)
            expect(page.locator(".events .turn")).to_have_text(headings)


def test_what_is_below_the_fold_is_named(browser: Browser, served: Served) -> None:
    with tab(browser, size=(1280, 800)) as opened:
        open_game(opened, served.at("board.jsonl", at=10**6))
        page = opened.page
        opened.wait_until_quiet()  # A panel that grows later would push the others down.
        below = page.get_by_role("navigation", name="Panels below")
        below.get_by_role("button", name="Summary").click()
        page.locator(".stage.scrolled").wait_for()
        opened.wait_until(lambda: box_of(page.locator(".summary"))["y"] < 800 - 140)
        below.get_by_role("button").first.wait_for(state="detached")
        page.locator(".work").evaluate("(work) => work.scrollTo({ top: 0 })")
        below.get_by_role("button", name="Summary").wait_for()
        assert not opened.faults


def test_the_keys_after_a_press_on_a_perspective(browser: Browser, served: Served) -> None:
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=4))
        opened.page.locator("label[for=view-1]").click()
        wait_for_view(opened, 1)
        opened.page.keyboard.press("ArrowRight")
        opened.wait_for_position(5)
        wait_for_view(opened, 1)


def test_keys_pressed_while_a_perspective_loads_are_not_lost(
    browser: Browser, served: Served
) -> None:
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=4))
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        opened.page.route("**/api/timeline?*", hold)
        opened.page.locator("label[for=view-1]").click()
        opened.page.wait_for_function("document.getElementById('main').inert")
        opened.page.keyboard.press("ArrowRight")
        opened.page.keyboard.press("ArrowRight")
        opened.wait_until(lambda: len(held) > 0)
        held[0].continue_()
        opened.wait_for_position(6)
        wait_for_view(opened, 1)


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


def test_the_grid_at_the_end_shows_each_role_as_certain(browser: Browser, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:  # Playwright runs an event loop in this thread.
        pool.submit(record, tmp_path, "avalon", game="avalon", talk=0).result()
    with serving(tmp_path) as viewer, tab(browser) as opened:
        open_game(opened, address(viewer.port, "avalon.jsonl", at=10**6))
        expect(opened.page.locator(".posterior .status")).to_contain_text(
            "The truth, open after the end"
        )
        expect(opened.page.locator(".grid td.sure")).to_have_count(5)
        expect(opened.page.locator(".grid tr.open")).to_have_count(0)


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


def test_an_empty_square_is_as_large_as_the_others(browser: Browser, served: Served) -> None:
    with tab(browser) as opened:
        open_game(opened, served.at("tictactoe.jsonl", at=3))
        tiles = opened.page.locator(".table-top .squares .square")
        expect(tiles).to_have_count(9)
        heights = [tile.bounding_box() for tile in tiles.all()]
        assert min(box["height"] for box in heights if box) > 20


@pytest.mark.parametrize("path, scheme", [(CARDS, "light"), ("board.jsonl", "dark")])
def test_no_serious_finding_of_axe(
    browser: Browser, served: Served, path: str, scheme: Literal["light", "dark"]
) -> None:
    with tab(browser, scheme=scheme) as opened:
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


def test_a_narrow_screen_cuts_nothing_off(browser: Browser, served: Served) -> None:
    with tab(browser, size=NARROW) as opened:
        open_game(opened, served.at("board.jsonl", at=20))
        page = opened.page
        page.locator(".grid.many").wait_for()
        opened.wait_until_quiet()
        cut = """(element) => element.scrollWidth - element.clientWidth"""
        assert page.locator(".posterior .scroller-x").evaluate(cut) == 0
        assert {head.evaluate(cut) for head in page.locator(".grid thead th").all()} == {0}
        for jump in page.locator(".jump").all():
            boxes = [box_of(part) for part in jump.locator("> *").all()]
            for left, right in pairwise(boxes):
                assert right["x"] - left["x"] - left["width"] >= 2


def test_the_heads_of_the_list_stand_over_its_columns(browser: Browser, served: Served) -> None:
    with tab(browser, size=(1280, 420)) as opened:
        opened.page.goto(served.home)
        expect(opened.page.locator(".rows .row")).to_have_count(8)
        for height, has_scroll_bar in ((480, True), (1400, False)):
            opened.page.set_viewport_size({"width": 1280, "height": height})
            opened.page.wait_for_function(ALIGNED, arg=has_scroll_bar)


# The head is aligned by an observer, after the page has its new size.
ALIGNED = """(hasScrollBar) => {
    const [head, row, table] = [".row.head", ".rows .row", ".rows"].map(
        (name) => document.querySelector(name).getBoundingClientRect());
    return head.x === row.x && head.width === row.width
        && hasScrollBar === row.width < table.width;
}"""


def test_dark_is_dark_and_can_be_chosen(browser: Browser, served: Served) -> None:
    with tab(browser, scheme="dark") as opened:
        opened.page.goto(served.home)
        opened.page.locator(".rows .row").first.wait_for()
        opened.wait_until(lambda: _brightness(opened) < 60)
        opened.page.get_by_role("button", name="Theme").click()
        opened.wait_until(lambda: _brightness(opened) > 200)
        light = _brightness(opened)
        opened.page.reload()
        opened.page.locator(".rows .row").first.wait_for()
        opened.wait_until(lambda: _brightness(opened) == light)


def _brightness(opened: Tab) -> float:
    """Of the ground of the page, from 0 to 255."""
    colour = str(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    parts = [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]
    return sum(parts) / 3


def test_a_game_of_many_seats(browser: Browser, tmp_path: Path) -> None:
    """Each seat has its own mark, and commitments without events share lines."""
    # In another thread, because the browser's event loop runs in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(record, tmp_path, "many", game="werewolf", players=12).result()
    with serving(tmp_path) as viewer, tab(browser) as opened:
        opened.page.goto(address(viewer.port, "many.jsonl", at=40))
        opened.page.locator(".ply.silent").nth(3).wait_for()
        marks = opened.page.locator("svg.mark").evaluate_all(
            "all => all.map((mark) => mark.classList.value + mark.firstChild.getAttribute('d'))"
        )
        assert len(set(marks)) == 12
        # At one moment, since the list scrolls to its end.
        tops = opened.page.locator(".ply.silent").evaluate_all(
            "all => all.slice(0, 4).map((entry) => entry.getBoundingClientRect().top)"
        )
        assert len(set(tops)) < len(tops) == 4
