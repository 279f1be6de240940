"""What must never be in the page; files, running and long games: in a real browser."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import Tab, expect, tab
from served_games import (
    ATTACK,
    CARDS,
    HOSTILE,
    SEED,
    Served,
    last_position,
    open_game,
    wait_for_view,
)
from web_viewer import being_written

from arena.agents.names import PlayerNames
from arena.episodes.replay import read_replay
from replays.web.bundle import write_bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

# What must not be there


def test_hostile_text_is_text(browser: Browser, served: Served, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_bundle(read_replay(served.folder / HOSTILE), None, out)
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
                opened.unfold()
                _unharmed(opened)
            # It is there, as text.
            expect(opened.page.locator(".outcome")).to_contain_text(ATTACK, use_inner_text=True)
        assert not opened.faults


def _unharmed(opened: Tab) -> None:
    assert opened.page.evaluate("top.hacked") is None
    assert opened.page.locator("main :is(img, script, iframe, object, style, link)").count() == 0
    attributes = """[...document.querySelectorAll('body *')].flatMap((element) =>
        [...element.attributes].map((each) => each.name).filter((name) => name.startsWith('on')))"""
    assert opened.page.evaluate(attributes) == []


def secrets_for(served: Served, seat: int) -> list[str]:
    """Return what this seat could not know: as the page shows it, then as the server sends it."""
    timeline = served.analysis().timeline()
    hidden = [
        event["text"]
        for ply in timeline["plies"]
        for event in ply["events"]
        if event["audience"] is not None and seat not in event["audience"]
    ]
    dealt = next(str(ply["action"]) for ply in timeline["plies"] if ply["player"] == -1)
    assert len(hidden) > 3 and dealt.startswith("deal ")
    others = [] if seat == 1 else ["I am thinking."]
    shown = map(PlayerNames(timeline["game"]["names"]).text, hidden)
    return [*shown, *hidden, dealt, str(SEED), *others]


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
        opened.wait_until_quiet()
        opened.bodies.clear()
        opened.aborted.clear()
        opened.page.keyboard.press(str(seat))
        wait_for_view(opened, seat)
        steps = [("Home", 0), *[("ArrowRight", step) for step in range(1, 13)], ("End", last)]
        for key, position in steps:
            opened.page.keyboard.press(key)
            opened.wait_for_position(position)
            html = opened.html()
            assert not [secret for secret in secrets if secret in html]
        opened.wait_until_quiet()
        expect(opened.page.locator(".legend li")).to_have_count(1)
        html = opened.html()
        assert not [secret for secret in secrets if secret in html]
        again = [opened.page.request.get(url).text() for url in opened.aborted]
        assert len(opened.bodies) >= 3 and len(opened.bodies) + len(again) >= 4
        for body in [*opened.bodies, *again]:
            text = body.encode().decode("unicode_escape") if "\\u" in body else body
            assert not [secret for secret in secrets if secret in text]


def test_a_request_that_fails_opens_nothing_else(browser: Browser, served: Served) -> None:
    secrets = secrets_for(served, 0)
    failing = True
    with tab(browser) as opened:
        # One interception from the beginning to the end: to replace it is a race in the browser.
        opened.page.route(
            "**/api/timeline*", lambda route: route.abort() if failing else route.continue_()
        )
        opened.page.goto(served.at(CARDS, at=20, seat=0))
        opened.page.get_by_role("alert").get_by_text("does not answer").wait_for()
        opened.wait_until_quiet()
        html = opened.html()
        assert not [secret for secret in secrets if secret in html]
        assert not opened.bodies, "nothing else was asked for"
        failing = False
        opened.page.reload()
        wait_for_view(opened, 0)
        # The same when the perspective is changed.
        failing = True
        opened.page.keyboard.press("2")
        opened.page.get_by_role("alert").get_by_text("does not answer").wait_for()
        expect(opened.page.locator(".game")).to_have_count(0)


def test_the_future_is_not_in_the_document(browser: Browser, served: Served) -> None:
    timeline = served.analysis().timeline(seat=0)
    plies, named = timeline["plies"], PlayerNames(timeline["game"]["names"]).text
    early = {named(event["text"]) for ply in plies[:5] for event in ply["events"]}
    later = {named(event["text"]) for ply in plies[5:] for event in ply["events"]} - early
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=5, seat=0))
        opened.page.locator(".legend li").first.wait_for()
        opened.page.keyboard.press("End")
        opened.wait_for_position(len(plies))
        html = opened.html()
        assert all(text in html for text in later)
        opened.page.get_by_role("slider").fill("5")
        opened.wait_for_position(5)
        opened.wait_until_quiet()
        html = opened.html()
        assert not [text for text in later if text in html]
        expect(opened.page.locator(".line.ahead")).to_have_count(0)
        expect(opened.page.locator(".outcome, .summary:visible")).to_have_count(0)


# Files and running games


def test_the_exported_file_works_from_disk(
    browser: Browser, served: Served, tmp_path: Path
) -> None:
    for seat, name in ((None, "open.html"), (1, "one.html")):
        write_bundle(read_replay(served.folder / CARDS), seat, tmp_path / name)
    last = last_position(served)
    with tab(browser) as opened:
        requests: list[str] = []
        opened.page.on("request", lambda request: requests.append(request.url))
        open_game(opened, f"{(tmp_path / 'open.html').as_uri()}#at=3")
        opened.wait_for_position(3)
        opened.page.locator(".grid td.sure").first.wait_for()
        opened.page.locator(".cluedo").wait_for()
        opened.page.keyboard.press("2")
        wait_for_view(opened, 2)
        opened.page.keyboard.press("End")
        opened.wait_for_position(last)
        open_game(opened, (tmp_path / "one.html").as_uri())
        wait_for_view(opened, 1)
        expect(opened.page.get_by_label("Everything open")).to_have_count(0)
        expect(opened.page.locator("#view-0")).to_be_disabled()
        secrets = secrets_for(served, 1)
        assert not [secret for secret in secrets if secret in opened.html()]
        assert all(url.startswith(("file:", "about:", "data:")) for url in requests)
        assert not opened.faults


def test_a_running_game_goes_on_by_itself(browser: Browser, served: Served) -> None:
    raw = (served.folder / CARDS).read_text().splitlines(keepends=True)
    part = served.folder / "live.jsonl.part"
    part.write_text("".join(raw[:12]))
    before = len(served.analysis(part.name).timeline()["plies"])
    with tab(browser) as opened, being_written(part):
        open_game(opened, served.at(part.name, at=before))
        opened.page.locator(".scene .chip", has_text="running").wait_for()
        with part.open("a") as file:
            file.write("".join(raw[12:24]))
        opened.page.locator(f".event-list > li:nth-child({before + 2})").wait_for()
        opened.page.keyboard.press("Home")
        opened.wait_for_position(0)
        shutil.copy(served.folder / CARDS, part)
        part.rename(served.folder / "live.jsonl")
        last = last_position(served)
        opened.page.locator(f"input[type=range][max='{last}']").wait_for()
        opened.wait_for_position(0)  # Somebody who looks at an earlier position stays there.
        opened.page.keyboard.press("End")
        opened.page.locator(".outcome").wait_for()
    (served.folder / "live.jsonl").unlink()


# Speed: compared with a short game in the same browser, because a busy machine slows down both


@pytest.mark.timed
def test_a_long_game_opens_and_steps_quickly(browser: Browser, served: Served) -> None:
    short, long = (_measure(browser, served, path) for path in (CARDS, "long.jsonl"))
    assert long.events >= 2000
    # Opening and stepping must grow much less than the game does.
    growth = long.events / short.events
    assert growth > 10
    assert long.opening < growth / 2 * short.opening
    assert long.step < growth / 2 * short.step and long.step < 150
    # What a step changes does not depend on the machine. Comments that arrive meanwhile count too.
    assert long.changes < 20 * 1000


@dataclass(frozen=True)
class Measured:
    events: int
    opening: float
    """Seconds until the table is drawn."""
    changes: int
    """Nodes that 20 steps add or remove."""
    step: float
    """Milliseconds of the fastest of the 20 steps: other processes do not slow down all of them."""


def _measure(browser: Browser, served: Served, path: str) -> Measured:
    plies = served.analysis(path).timeline()["plies"]
    with tab(browser) as opened:
        began = time.monotonic()
        open_game(opened, served.at(path, at=len(plies) // 2))
        opened.page.locator(".cluedo").wait_for()
        opening = time.monotonic() - began
        opened.page.locator(".legend li").nth(2).wait_for()
        opened.page.wait_for_timeout(500)
        times, changes = json.loads(str(opened.page.evaluate(TIME_STEPS)))
    events = sum(len(ply["events"]) for ply in plies)
    return Measured(events, opening, changes, min(times))


TIME_STEPS = """async () => {
  const times = [];
  let changes = 0;
  const count = (records) => {
    for (const each of records) changes += each.addedNodes.length + each.removedNodes.length;
  };
  const observer = new MutationObserver(count);
  observer.observe(document.body, { childList: true, subtree: true });
  for (let step = 0; step < 20; step += 1) {
    const began = performance.now();
    const key = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
    document.body.dispatchEvent(key);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - began);
  }
  observer.disconnect();
  return JSON.stringify([times, changes]);
}"""
