"""The viewer's page in a real browser: what one does with it, and what must never be in it."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from browsing import (
    NARROW,
    Tab,
    a_long_game,
    address,
    browsing,
    lines_of,
    missing,
    tab,
    with_attempts,
    write_lines,
)
from command_line import arena
from web_viewer import WebViewer, being_written, record, serving

from arena.replay import read_replay
from replays.study.study import Study
from replays.web import write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

SEED = 918273645
CARDS = "cards.jsonl"
HOSTILE = "<img src=x onerror=top.hacked=1>.jsonl"
ATTACK = (
    "</script><script>top.hacked=1</script><img src=x onerror=top.hacked=1>"
    "<svg onload=top.hacked=1>\"'><iframe src=javascript:top.hacked=1></iframe>"
)
STEPS = "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowLeft", "Home"


@dataclass(frozen=True)
class Served:
    folder: Path
    viewer: WebViewer

    def at(self, path: str, **place: int) -> str:
        return address(self.viewer.port, path, **place)

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.viewer.port}/"

    def study(self, path: str = CARDS) -> Study:
        return Study(read_replay(self.folder / path))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A folder of games and its server. Games are played before a browser has an event loop."""
    folder = tmp_path_factory.mktemp("replays")
    record(folder, "played", seed=SEED, game="cluedo", variant="cards", players=3)
    lines = lines_of((folder / "played.jsonl").rename(folder / CARDS))
    write_lines(folder / CARDS, with_attempts(lines, 1, "I am thinking."))
    write_lines(folder / HOSTILE, hostile(lines))
    record(folder, "board", seed=3, game="cluedo", variant="classic", players=6)
    for game in ("tictactoe", "goofspiel", "kuhn_poker"):
        record(folder, game, seed=2, game=game)
    (folder / "broken.jsonl").write_text('{"type":"header","schema_version":0}\n')
    a_long_game(folder, 2000)
    with serving(folder) as viewer:
        yield Served(folder, viewer)


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    with browsing() as started:
        yield started


def hostile(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A replay that tries to run script in every field that takes text."""
    specs = [f"{ATTACK}{seat}" for seat in range(3)]
    lines = with_attempts(lines, 0, ATTACK, note={ATTACK: ATTACK}, beliefs={ATTACK: ATTACK})
    by_type: dict[str, dict[str, Any]] = {
        "header": {"players": specs},
        "outcome": {"reason": ATTACK},
        "decision": {"failure": ATTACK},
    }
    return [line | by_type.get(str(line["type"]), {}) for line in lines]


def open_game(opened: Tab, url: str) -> None:
    opened.page.goto("about:blank")
    opened.page.goto(url)
    opened.page.locator(".where strong").wait_for()


def view(seat: int | None) -> str:
    return f"#view-{'open' if seat is None else seat}"


def looks_through(opened: Tab, seat: int | None) -> bool:
    return opened.page.locator(view(seat)).is_checked()


def wait_for_view(opened: Tab, seat: int | None) -> None:
    opened.page.locator(f"{view(seat)}:checked").wait_for()


def last_position(served: Served, path: str = CARDS) -> int:
    return len(served.study(path).story()["plies"])


# The list


def test_the_list_is_searched_filtered_and_sorted(browser: Browser, served: Served) -> None:
    with tab(browser) as opened:
        page = opened.page
        page.goto(served.home)
        rows = page.locator(".rows .row")
        rows.first.wait_for()
        assert rows.count() == 8
        assert "schema" in rows.filter(has_text="Unreadable").inner_text()
        page.get_by_label("Search").fill("tictac")
        page.locator(".count", has_text="1 of 8 games").wait_for()
        page.get_by_role("button", name="Clear").click()
        page.get_by_label("Turns from").fill("300")
        page.locator(".count", has_text="1 of 8 games").wait_for()
        page.get_by_role("button", name="Clear").click()
        page.get_by_label("Result").select_option("unreadable")
        page.locator(".count", has_text="1 of 8 games").wait_for()
        page.get_by_role("button", name="Clear").click()
        page.get_by_role("button", name="Turns").click()
        assert "long.jsonl" in rows.first.inner_text()
        page.get_by_role("columnheader", name="Turns").and_(
            page.locator("[aria-sort=descending]")
        ).wait_for()
        page.get_by_label("Search").fill("no such game")
        page.get_by_text("No game fits").wait_for()
        assert not opened.faults


def test_an_empty_folder_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as viewer, tab(browser) as opened:
        opened.page.clock.install()
        opened.page.goto(f"http://127.0.0.1:{viewer.port}/")
        command = opened.page.get_by_text("arena play").inner_text()
        done = arena("", *shlex.split(command)[1:], cwd=tmp_path.parent)
        assert done.returncode == 0, done.stderr
        opened.page.clock.fast_forward(10_000)
        opened.page.locator(".rows .row", has_text="bot:novice").wait_for()
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
        assert opened.position() == 0
        for key, position in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
            page.keyboard.press(key)
            opened.wait_for_position(position)
        page.keyboard.press("End")
        opened.wait_for_position(last)
        assert page.locator(".talk-list > li").count() == last
        assert page.locator("[aria-current=step]").count() == 1
        page.keyboard.press("Home")
        opened.wait_for_position(0)
        assert page.locator(".talk-list > li").count() == 0
        page.get_by_role("button", name="One ply forward").click()
        page.get_by_role("slider").fill("9")
        opened.wait_for_position(9)
        text = page.get_by_role("slider").get_attribute("aria-valuetext") or ""
        assert f"Position 9 of {last}" in text
        assert page.locator("#said").inner_text() == text
        page.locator(".talk-list button").nth(3).click()
        opened.wait_for_position(4)
        assert "at=4" in _settled(opened)
        assert not opened.faults


def _settled(opened: Tab) -> str:
    """The address, after quick steps have been gathered."""
    opened.page.wait_for_timeout(450)
    return opened.page.url


def test_plays_by_itself(browser: Browser, served: Served) -> None:
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS))
        opened.page.get_by_label("Speed").select_option("8")
        opened.page.locator("h1").click()
        opened.page.keyboard.press("Space")
        opened.page.locator(".talk-list > li:nth-child(3)").wait_for()
        opened.page.get_by_role("button", name="Pause").click()
        stopped = opened.position()
        opened.page.wait_for_timeout(400)
        assert opened.position() == stopped


def test_jumps_to_moves_mistakes_and_accusations(browser: Browser, served: Served) -> None:
    study = served.study()
    comments, plies = list(study.comments()), study.story()["plies"]
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS))
        page = opened.page
        page.get_by_label("Whose moves").select_option("2")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Next move of this seat").click()
        opened.wait_for_position(next(p["ply"] + 1 for p in plies if p["player"] == 2))
        for key, wanted in (("m", "mistake"), ("a", "accusation")):
            found = [c["found"] for c in comments if c["mistake"] or wanted == "accusation"]
            if wanted == "accusation":
                found = [c["found"] for c in comments if "accusation" in c["kind"]]
                found += [
                    p["ply"] + 1 for p in plies for e in p["events"] if e["kind"] == "Accused"
                ]
            assert found, f"this game has no {wanted}"
            page.keyboard.press("Home")
            page.locator(".all-notes, .talk").first.wait_for()
            page.get_by_role("button", name=f"Next {wanted}").and_(
                page.locator("[aria-disabled=false]")
            ).wait_for()
            page.wait_for_timeout(300)  # Comments come one by one.
            page.locator("h1").click()
            page.keyboard.press(key)
            opened.wait_for_position(min(found))
        assert page.locator(".ticks span").count() == len(
            {c["found"] for c in comments if c["mistake"]}
        )


def test_a_position_can_be_linked(browser: Browser, served: Served) -> None:
    last = last_position(served)
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=7, seat=2))
        assert opened.position() == 7
        assert looks_through(opened, 2)
        open_game(opened, served.at(CARDS, at=10**6, of=50))
        assert opened.position() == last
        assert looks_through(opened, None)
        opened.page.evaluate(f"location.hash = '#path={CARDS}&at=3&of=2'")
        opened.wait_for_position(3)
        assert opened.page.get_by_label("Whose knowledge").input_value() == "2"
        opened.page.goto(served.at("nowhere.jsonl"))
        opened.page.get_by_role("alert").get_by_text("no such replay").wait_for()
        # Nothing is offered that leads to the same fault.
        assert opened.page.locator("main a").all_inner_texts() == ["All games"]


def test_a_seats_address_does_not_name_the_file(browser: Browser, served: Served) -> None:
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=7))
        opened.page.keyboard.press("2")
        wait_for_view(opened, 2)
        linked = _settled(opened)
        assert "seat=2" in linked and "cards" not in linked and "path=" not in linked
        assert CARDS not in opened.html()
        open_game(opened, linked)
        assert opened.position() == 7 and looks_through(opened, 2)
        opened.page.keyboard.press("o")
        wait_for_view(opened, None)
        assert "path=cards.jsonl" in _settled(opened)
        assert not opened.faults


@pytest.mark.parametrize("seat", ["50", "-1", "x", "", "1e0"])
def test_a_seat_that_is_none_opens_nothing(browser: Browser, served: Served, seat: str) -> None:
    with tab(browser) as opened:
        opened.page.goto(f"{served.at(CARDS)}&seat={seat}")
        opened.page.get_by_role("alert").get_by_text("seat=").wait_for()
        assert not [body for body in opened.bodies if "plies" in body]
        if seat == "50":
            assert opened.page.get_by_role("alert").get_by_role("link").count() == 5
            opened.page.get_by_role("link", name="Seat 1").click()
            wait_for_view(opened, 1)
        else:
            opened.page.get_by_role("link", name="Everything open").click()
            wait_for_view(opened, None)


def test_a_request_that_fails_opens_nothing_else(browser: Browser, served: Served) -> None:
    secrets = secrets_for(served, 0)
    with tab(browser) as opened:
        opened.page.route("**/api/story*", lambda route: route.abort(), times=1)
        opened.page.goto(served.at(CARDS, at=20, seat=0))
        opened.page.get_by_role("alert").get_by_text("does not answer").wait_for()
        opened.page.wait_for_timeout(300)
        assert not [secret for secret in secrets if secret in opened.html()]
        assert not opened.bodies, "nothing else was asked for"
        opened.page.reload()
        wait_for_view(opened, 0)
        opened.page.unroute("**/api/story*")
        # The same when the perspective is changed.
        opened.page.route("**/api/story*", lambda route: route.abort(), times=1)
        opened.page.keyboard.press("2")
        opened.page.get_by_role("alert").get_by_text("does not answer").wait_for()
        assert opened.page.locator(".game").count() == 0


def test_a_branch_links_its_parent(browser: Browser, served: Served, tmp_path: Path) -> None:
    parent = tmp_path / "deep" / "parent-seed9.jsonl"
    parent.parent.mkdir()
    shutil.copy(served.folder / CARDS, parent)
    lines = lines_of(parent)
    branch = {
        "parent": parent.name,
        "parent_sha256": hashlib.sha256(parent.read_bytes()).hexdigest(),
        "ply": 5,
        "seed": 77,
        "players": ["bot:before", "bot:novice", "bot:novice"],
    }
    gone = branch | {"parent": "gone.jsonl", "ply": 2}
    write_lines(tmp_path / "branch.jsonl", [lines[0] | {"branches": [gone, branch]}, *lines[1:]])
    with serving(tmp_path) as viewer, tab(browser) as opened:
        opened.page.goto(f"http://127.0.0.1:{viewer.port}/")
        opened.page.get_by_text("branch at position 5 of parent-seed9.jsonl").wait_for()
        open_game(opened, address(viewer.port, "branch.jsonl", at=6))
        assert "was bot:before until ply 5" in opened.page.locator(".perspectives").inner_text()
        opened.page.keyboard.press("End")
        assert "from ply 6 on" in opened.page.locator(".summary .panel-head").inner_text()
        assert opened.page.get_by_role("link", name="gone.jsonl").count() == 0
        opened.page.get_by_role("link", name=parent.name).click()
        opened.wait_for_position(5)
        assert "Branched off" not in opened.page.locator("main").inner_text()
        open_game(opened, address(viewer.port, "branch.jsonl", at=6, seat=1))
        opened.page.get_by_text("This game left another one at position 5").wait_for()
        assert "seed9" not in opened.html() and "gone" not in opened.html()


def test_everything_can_be_done_with_keys(browser: Browser, served: Served) -> None:
    with tab(browser) as opened:
        page = opened.page
        page.goto(served.home)
        page.locator(".rows .row").first.wait_for()
        page.get_by_label("Search").focus()
        page.keyboard.type("cards.?")  # A question mark is text here.
        assert page.get_by_role("dialog").count() == 0
        page.get_by_label("Search").fill("cards.jsonl")
        page.locator(".count", has_text="1 of").wait_for()
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.className") == "name":
                break
        page.keyboard.press("Enter")
        page.locator(".where strong").wait_for()
        page.keyboard.press("ArrowRight")
        opened.wait_for_position(1)
        page.keyboard.press("1")
        wait_for_view(opened, 1)
        opened.wait_for_position(1)
        page.keyboard.press("o")
        wait_for_view(opened, None)
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        assert page.locator("dialog.keys kbd").all_inner_texts() == [
            *("←", "→", "Home", "End", "Space", "[", "]", "M", "m", "A", "a", "o", "0 … 9"),
            *("↑", "↓", "?"),
        ]
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Escape")
        assert page.get_by_role("dialog").count() == 0
        assert opened.position() == 1
        assert not opened.faults


# The panels


def test_the_decision_shows_what_was_asked_and_answered(browser: Browser, served: Served) -> None:
    plies = served.study().story()["plies"]
    asked = [ply["ply"] for ply in plies if ply["asked"]]
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=asked[1] + 1))
        panel = opened.page.locator(".decision")
        panel.get_by_text("Attempt 2 of 2").wait_for()
        text = panel.inner_text()
        # The ply that leads to a position has its number.
        assert f" · ply {asked[1] + 1} · " in text
        for part in (
            "unparsable",
            "accepted",
            "Because. I am thinking.",
            "policy version",
            "812 in",
        ):
            assert part in text
        assert f"Position {asked[1]}. I am thinking." in text
        assert panel.locator("ins").count() > 0
        assert "least likely: token 2" in text
        assert "2 messages as in the last request" in text
        open_game(opened, served.at(CARDS, at=1))
        opened.page.get_by_text("Chance moved here").wait_for()


def test_a_mistake_its_decision_and_its_judgement_meet(browser: Browser, served: Served) -> None:
    comments = [each for each in served.study().comments() if each["mistake"]]
    first = min(comments, key=lambda each: each["found"])
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS))
        page = opened.page
        page.locator(".ticks span").first.wait_for()
        page.wait_for_timeout(300)  # Comments come one by one.
        page.keyboard.press("m")
        opened.wait_for_position(first["ply"] + 1)
        assert f"ply {first['ply'] + 1}" in page.locator(".decision .status").inner_text()
        note = page.locator(".notes-now .note.wrong")
        assert first["text"] in note.inner_text()
        assert "better" in (note.locator(".chip.wrong").get_attribute("title") or "")
        page.get_by_text("All so far").click()
        page.locator(".all-notes").get_by_text("A mistake: exact knowledge").wait_for()
        page.get_by_text("In this game").click()
        page.get_by_text("A mistake is a question that promised less").wait_for()
        link = page.locator(".notes-all .link").first
        number = link.inner_text().split()[-1]
        link.click()
        opened.wait_for_position(int(number))


@pytest.mark.parametrize("seat", [None, 0])
def test_all_panels_say_the_same_turn(browser: Browser, served: Served, seat: int | None) -> None:
    """After a ply that has ended a turn, the next one is on."""
    plies = served.study().story()["plies"]
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
            assert page.locator(".scene .status").inner_text().startswith(f"Turn {turn}")
            assert f"Turn {turn}, " in page.locator(".cluedo").inner_text()
            headings = page.locator(".talk .turn").all_inner_texts()
            assert headings[-1].startswith(f"Turn {turn}: ")
            assert page.locator(".talk").get_by_text(f"Turn {turn}", exact=False).count() == 1
            page.keyboard.press("ArrowRight")
            opened.wait_for_position(position + 1)
            assert page.locator(".talk .turn").all_inner_texts() == headings


def test_what_is_below_the_fold_is_named(browser: Browser, served: Served) -> None:
    with tab(browser, size=(1280, 800)) as opened:
        open_game(opened, served.at("board.jsonl", at=20))
        page = opened.page
        below = page.get_by_role("navigation", name="Further down")
        below.get_by_role("button", name="Decision").click()
        page.locator(".stage.scrolled").wait_for()
        top = page.locator(".decision").bounding_box()
        assert top is not None and top["y"] < 800 - 140
        below.get_by_role("button").first.wait_for(state="detached")
        page.locator(".work").evaluate("(work) => work.scrollTo({ top: 0 })")
        below.get_by_role("button", name="Uncertainty").wait_for()
        assert not opened.faults


def test_the_keys_after_a_press_on_a_perspective(browser: Browser, served: Served) -> None:
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=4))
        opened.page.locator("label[for=view-1]").click()
        wait_for_view(opened, 1)
        opened.page.keyboard.press("ArrowRight")
        opened.wait_for_position(5)
        assert looks_through(opened, 1)


def test_the_grid_and_the_chart_say_what_was_known(browser: Browser, served: Served) -> None:
    known = served.study().knowledge(1)
    assert known is not None
    entry = [each for each in known["known"] if each["position"] <= 9][-1]
    assert entry["grid"] is not None
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=9, of=1))
        page = opened.page
        page.locator(".legend li").nth(2).wait_for()
        cells = page.locator(".grid tbody tr:not(.kind) td")
        assert cells.count() == len(known["things"]) * len(known["places"])
        signs = [text.strip() for text in cells.all_inner_texts()]
        for sign, share in zip(signs, chain(*entry["grid"]), strict=True):
            if share in (0, 1):
                assert sign.startswith("✓" if share else "–")
            else:
                assert abs(float(sign.strip("<>")) - 100 * share) <= 1
        page.get_by_text("As a table").click()
        assert page.locator(".figures tbody tr").count() > 1


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
        assert opened.page.locator(".table-top > *").count() == 1
        assert not opened.faults


@pytest.mark.parametrize("path, scheme", [(CARDS, "light"), ("board.jsonl", "dark")])
def test_no_serious_finding_of_axe(
    browser: Browser, served: Served, path: str, scheme: Literal["light", "dark"]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is missing")
    with tab(browser, scheme=scheme) as opened:
        opened.page.goto(served.home)
        opened.page.locator(".rows .row").first.wait_for()
        _check(axe, opened)
        open_game(opened, served.at(path, at=last_position(served, path)))
        opened.page.locator(".grid td.sure").first.wait_for()
        opened.page.locator(".summary td").first.wait_for()
        _check(axe, opened)


def _check(axe: Any, opened: Tab) -> None:
    found = axe.Axe().run(opened.page).response
    assert found["passes"]
    serious = [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert not serious


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
                assert opened.overflow() == 0, f"{path} at {opened.position()}"


def test_a_narrow_screen_cuts_nothing_off(browser: Browser, served: Served) -> None:
    with tab(browser, size=NARROW) as opened:
        open_game(opened, served.at("board.jsonl", at=20))
        page = opened.page
        page.locator(".grid.many").wait_for()
        cut = """(element) => element.scrollWidth - element.clientWidth"""
        assert page.locator(".knowledge .scroller-x").evaluate(cut) == 0
        assert {head.evaluate(cut) for head in page.locator(".grid thead th").all()} == {0}
        for jump in page.locator(".jump").all():
            boxes = [part.bounding_box() for part in jump.locator("> *").all()]
            for left, right in pairwise(boxes):
                assert left is not None and right is not None
                assert right["x"] - left["x"] - left["width"] >= 2


def test_the_heads_of_the_list_stand_over_its_columns(browser: Browser, served: Served) -> None:
    with tab(browser, size=(1280, 420)) as opened:
        opened.page.goto(served.home)
        rows = opened.page.locator(".rows .row")
        rows.first.wait_for()
        for size in ((1280, 480), (1280, 1400)):  # With a scroll bar and without.
            opened.page.set_viewport_size({"width": size[0], "height": size[1]})
            opened.page.wait_for_timeout(100)
            head, row, table = (
                opened.page.locator(selector).first.bounding_box()
                for selector in (".row.head", ".rows .row", ".rows")
            )
            assert head is not None and row is not None and table is not None
            assert (head["x"], head["width"]) == (row["x"], row["width"])
        assert row and table and row["width"] == table["width"]


def test_dark_is_dark_and_can_be_chosen(browser: Browser, served: Served) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with tab(browser, scheme="dark") as opened:
        opened.page.goto(served.home)
        opened.page.locator(".rows .row").first.wait_for()
        dark = str(opened.page.evaluate(ground))
        opened.page.get_by_role("button", name="Theme").click()
        light = str(opened.page.evaluate(ground))
        assert _brightness(dark) < 60 and _brightness(light) > 200
        opened.page.reload()
        opened.page.locator(".rows .row").first.wait_for()
        assert opened.page.evaluate(ground) == light


def _brightness(colour: str) -> float:
    parts = [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]
    return sum(parts) / 3


# What must not be there


def test_hostile_text_is_text(browser: Browser, served: Served, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_page(read_replay(served.folder / HOSTILE), None, out)
    last = last_position(served, HOSTILE)
    with tab(browser) as opened:
        opened.page.goto(served.home)
        opened.page.locator(".rows .row", has_text="onerror").first.wait_for()
        _unharmed(opened)
        for url in (served.at(HOSTILE), served.at(HOSTILE, seat=0), out.as_uri()):
            open_game(opened, url)
            for position in (2, 5, last):
                opened.page.get_by_role("slider").fill(str(position))
                opened.wait_for_position(position)
                opened.page.locator(".decision:not([aria-busy])").wait_for()
                opened.page.evaluate(UNFOLD)
                opened.page.wait_for_timeout(50)
                _unharmed(opened)
            shown = opened.page.locator(".outcome").inner_text()
            assert ATTACK in shown  # It is there, as text.
        assert not opened.faults


UNFOLD = "document.querySelectorAll('details').forEach((each) => (each.open = true))"


def _unharmed(opened: Tab) -> None:
    assert opened.page.evaluate("top.hacked") is None
    assert opened.page.locator("main :is(img, script, iframe, object, style, link)").count() == 0
    attributes = """[...document.querySelectorAll('body *')].flatMap((element) =>
        [...element.attributes].map((each) => each.name).filter((name) => name.startsWith('on')))"""
    assert opened.page.evaluate(attributes) == []


def secrets_for(served: Served, seat: int) -> list[str]:
    """What stands in the open story and this seat could not know."""
    story = served.study().story()
    hidden = [
        event["text"]
        for ply in story["plies"]
        for event in ply["events"]
        if event["audience"] is not None and seat not in event["audience"]
    ]
    dealt = next(str(ply["action"]) for ply in story["plies"] if ply["player"] == -1)
    assert len(hidden) > 3 and dealt.startswith("deal ")
    others = [] if seat == 1 else ["I am thinking."]
    return [*hidden, dealt, str(SEED), *others]


@pytest.mark.parametrize("seat", [0, 1])
def test_a_seats_page_holds_nothing_that_it_could_not_know(
    browser: Browser, served: Served, seat: int
) -> None:
    secrets = secrets_for(served, seat)
    last = last_position(served)
    with tab(browser) as opened:
        # Everything was open before: nothing of it may be left.
        open_game(opened, served.at(CARDS, at=last))
        opened.page.locator(".legend li").nth(2).wait_for()
        assert all(secret in opened.html() for secret in secrets[:3])
        opened.page.wait_for_timeout(500)
        opened.bodies.clear()
        opened.page.keyboard.press(str(seat))
        wait_for_view(opened, seat)
        for key in ("Home", *["ArrowRight"] * 12, "End"):
            opened.page.keyboard.press(key)
            opened.page.wait_for_timeout(30)
            html = opened.html()
            assert not [secret for secret in secrets if secret in html]
        opened.page.locator(".legend li").first.wait_for()
        opened.page.wait_for_timeout(300)
        assert opened.page.locator(".legend li").count() == 1
        assert len(opened.bodies) >= 4
        for body in opened.bodies:
            text = body.encode().decode("unicode_escape") if "\\u" in body else body
            assert not [secret for secret in secrets if secret in text]


def test_the_future_is_not_in_the_document(browser: Browser, served: Served) -> None:
    plies = served.study().story(seat=0)["plies"]
    early = {event["text"] for ply in plies[:5] for event in ply["events"]}
    later = {event["text"] for ply in plies[5:] for event in ply["events"]} - early
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=5, seat=0))
        opened.page.locator(".legend li").first.wait_for()
        opened.page.keyboard.press("End")
        opened.wait_for_position(len(plies))
        assert all(text in opened.html() for text in later)
        opened.page.get_by_role("slider").fill("5")
        opened.wait_for_position(5)
        html = opened.html()
        assert not [text for text in later if text in html]
        assert opened.page.locator(".line.ahead").count() == 0
        assert opened.page.locator(".outcome, .summary:visible").count() == 0


# Files and running games


def test_the_exported_file_works_from_disk(
    browser: Browser, served: Served, tmp_path: Path
) -> None:
    for seat, name in ((None, "open.html"), (1, "one.html")):
        write_page(read_replay(served.folder / CARDS), seat, tmp_path / name)
    last = last_position(served)
    with tab(browser) as opened:
        requests: list[str] = []
        opened.page.on("request", lambda request: requests.append(request.url))
        open_game(opened, f"{(tmp_path / 'open.html').as_uri()}#at=3")
        assert opened.position() == 3
        opened.page.locator(".grid td.sure").first.wait_for()
        opened.page.locator(".cluedo").wait_for()
        opened.page.keyboard.press("2")
        wait_for_view(opened, 2)
        opened.page.keyboard.press("End")
        opened.wait_for_position(last)
        open_game(opened, (tmp_path / "one.html").as_uri())
        assert looks_through(opened, 1)
        assert opened.page.get_by_label("Everything open").count() == 0
        assert opened.page.locator("#view-0").is_disabled()
        secrets = secrets_for(served, 1)
        assert not [secret for secret in secrets if secret in opened.html()]
        assert all(url.startswith(("file:", "about:", "data:")) for url in requests)
        assert not opened.faults


def test_a_running_game_goes_on_by_itself(browser: Browser, served: Served) -> None:
    raw = (served.folder / CARDS).read_text().splitlines(keepends=True)
    part = served.folder / "live.jsonl.part"
    part.write_text("".join(raw[:12]))
    before = len(served.study(part.name).story()["plies"])
    with tab(browser) as opened, being_written(part):
        open_game(opened, served.at(part.name, at=before))
        opened.page.locator(".scene .chip", has_text="running").wait_for()
        with part.open("a") as file:
            file.write("".join(raw[12:24]))
        opened.page.locator(f".talk-list > li:nth-child({before + 2})").wait_for()
        opened.page.keyboard.press("Home")
        opened.wait_for_position(0)
        shutil.copy(served.folder / CARDS, part)
        part.rename(served.folder / "live.jsonl")
        last = last_position(served)
        opened.page.locator(f"input[type=range][max='{last}']").wait_for()
        assert opened.position() == 0  # Somebody who looks at an earlier position stays there.
        opened.page.keyboard.press("End")
        opened.page.locator(".outcome").wait_for()
    (served.folder / "live.jsonl").unlink()


# Speed: bounds with room for a busy machine, what is measured is far below them


def test_a_long_game_opens_and_steps_quickly(browser: Browser, served: Served) -> None:
    story = served.study("long.jsonl").story()
    assert sum(len(ply["events"]) for ply in story["plies"]) >= 2000
    middle = len(story["plies"]) // 2
    with tab(browser) as opened:
        began = time.monotonic()
        open_game(opened, served.at("long.jsonl", at=middle))
        opened.page.locator(".cluedo").wait_for()
        assert time.monotonic() - began < 6
        opened.page.locator(".legend li").nth(3).wait_for()
        opened.page.wait_for_timeout(500)
        times = json.loads(str(opened.page.evaluate(TIME_STEPS)))
        assert len(times) == 20 and sorted(times)[10] < 150


TIME_STEPS = """async () => {
  const times = [];
  for (let step = 0; step < 20; step += 1) {
    const began = performance.now();
    const key = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
    document.body.dispatchEvent(key);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - began);
  }
  return JSON.stringify(times);
}"""
