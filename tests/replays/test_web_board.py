"""The analysis board in a real browser: values of moves, layout, colours, figures and links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import Tab, expect, tab
from served_games import (
    CARDS,
    SEED,
    Served,
    open_game,
    serving_games,
)
from web_viewer import record

from arena.episodes.replay import read_replay
from replays.web.bundle import write_bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Games with a board beside those of other tests, recorded before the browser starts."""
    folder = tmp_path_factory.mktemp("board")
    record(folder, "four", SEED, "cluedo", variant="classic", players=4)
    with serving_games(folder) as games:
        yield games


def a_question(served: Served, path: str, seat: int | None = None) -> int:
    """A ply in which a seat asks a question."""
    plies = served.analysis(path).timeline()["plies"]
    return next(
        ply["ply"]
        for ply in plies[len(plies) // 3 :]
        if str(ply["action"]).startswith("suggest") and seat in (None, ply["player"])
    )


def played_rank(panel: Locator) -> str:
    panel.locator(".is-played").wait_for()
    return panel.locator(".is-played td").first.inner_text()


# Values of moves


def test_the_best_questions_and_the_rank_of_the_one_played(
    browser: Browser, served: Served
) -> None:
    ply = a_question(served, CARDS)
    document = served.analysis().moves(ply)
    assert document is not None
    ranking = document["rankings"][0]
    played = ranking["played"]
    assert played is not None
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=ply + 1))
        panel = opened.page.locator(".decision")
        assert played_rank(panel) == str(played["rank"])
        last = panel.locator(".engine > .rankings")
        first = last.locator("tbody tr").first
        expect(first).to_contain_text(f"{ranking['best'][0]['value']:.2f}")
        expect(first).to_contain_text(ranking["best"][0]["action"].removeprefix("suggest "))
        expect(last).to_contain_text(f" of {ranking['count']} questions")
        expect(last).to_contain_text("Best of 324 accusations: ")
        # One ply earlier the same values are those of the next move, without what will be played.
        opened.page.keyboard.press("ArrowLeft")
        coming = panel.locator(".next-moves")
        opened.wait_for_position(ply)
        opened.wait_until_quiet()  # Until then these are the moves after the next one.
        coming.locator("tbody tr").first.wait_for()
        expect(coming.locator("tbody tr")).to_have_count(len(ranking["best"]))
        expect(coming.locator(".is-played")).to_have_count(0)
        assert not opened.faults


def test_a_seat_sees_the_values_of_its_own_moves_only(browser: Browser, served: Served) -> None:
    own, other = a_question(served, CARDS, 1), a_question(served, CARDS, 2)
    with tab(browser) as opened:
        open_game(opened, served.at(CARDS, at=other, seat=1))
        panel = opened.page.locator(".decision")
        opened.wait_until_quiet()
        expect(panel.locator(".next-moves")).not_to_be_visible()  # Another seat moves next.
        opened.page.keyboard.press("ArrowRight")
        opened.wait_for_position(other + 1)
        opened.wait_until_quiet()
        expect(panel.locator(".engine tbody tr, .engine .best-line")).to_have_count(0)
        opened.page.get_by_role("slider").fill(str(own + 1))
        played_rank(panel)
        opened.wait_until_quiet()
        assert not [url for url in opened.bodies if '"player":2,"rankings"' in url]


def test_an_exported_file_holds_the_values_or_says_where_they_are(
    browser: Browser, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay, ply = read_replay(served.folder / CARDS), a_question(served, CARDS)
    write_bundle(replay, None, tmp_path / "with.html")
    monkeypatch.setattr("replays.web.bundle.MAX_LEGAL_MOVES", 10)
    write_bundle(replay, None, tmp_path / "without.html")
    with tab(browser) as opened:
        open_game(opened, f"{(tmp_path / 'with.html').as_uri()}#at={ply + 1}")
        played_rank(opened.page.locator(".decision"))
        open_game(opened, f"{(tmp_path / 'without.html').as_uri()}#at={ply + 1}")
        opened.page.locator(".engine").get_by_text("arena replay FILE --web").wait_for()
        assert not opened.faults


# The grid


# Layout


# Colours


def copied(opened: Tab, name: str) -> str:
    with opened.stopped_clock():  # The note is there for a moment only.
        opened.page.get_by_role("button", name=name).click()
        opened.page.locator(".share-note").wait_for()
    return str(opened.page.evaluate("navigator.clipboard.readText()"))
