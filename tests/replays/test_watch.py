"""A match to watch: the live table, the cards of the players, the standings, and wrong folders."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import (
    NARROW,
    axe_findings,
    box_of,
    browsing,
    expect,
    lines_of,
    tab,
    with_attempts,
    write_lines,
)
from command_line import started
from home_folder import write_evaluation
from web_viewer import being_written, record, serving

from arena.cli import run
from arena.episodes.replay import read_replay
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.film.write import film_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WORDS = "Nobody showed the Rope, so it is in the envelope."


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A game in which player 0 is a model that gives reasons."""
    folder = tmp_path_factory.mktemp("game")
    path = record(folder, "game", 3, "cluedo", players=3, suspects=3, weapons=3, rooms=3)
    lines = with_attempts(lines_of(path), 0, "")
    for line in lines:
        for attempt in line.get("details", {}).get("attempts", [])[1:]:
            attempt["reply"] = f"{WORDS}\n\nAction: {line['action']}"
    lines[0]["players"][0] = "openai:gpt-5-nano"
    write_lines(path, lines)
    return path


# What a ply says


def test_words_and_cost_are_for_those_who_see_everything(game: Path) -> None:
    analysis = ReplayAnalysis(read_replay(game))
    own = [ply for ply in analysis.timeline()["plies"] if ply["player"] == 0]
    assert own and all(ply["words"] == WORDS and ply["cost"] == 0.0021 for ply in own)
    for seat in range(3):
        plies = analysis.timeline(seat)["plies"]
        assert not any("words" in ply or "cost" in ply for ply in plies)


def test_the_cost_includes_a_question_beside_the_chat(game: Path, tmp_path: Path) -> None:
    lines, path = lines_of(game), tmp_path / "again.jsonl"
    for line in lines:
        if "attempts" in line.get("details", {}):
            line["details"]["again"] = {"reply": "Nothing new.", "cost": 0.0004}
    write_lines(path, lines)
    plies = ReplayAnalysis(read_replay(path)).timeline()["plies"]
    costs = [ply["cost"] for ply in plies if ply["player"] == 0]
    assert costs and costs == pytest.approx([0.0025] * len(costs))


# The page


@pytest.fixture
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


@pytest.mark.browser
def test_a_running_game_is_followed_to_its_end(
    browser: Browser, game: Path, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as pool:  # The browser's event loop may run in this thread.
        pool.submit(write_evaluation, tmp_path / "match", "bot:strong").result()
    lines = game.read_text(encoding="utf-8").splitlines(keepends=True)
    growing = tmp_path / "match" / "replays" / "one.jsonl.part"
    growing.parent.mkdir()
    # Until the first move of the model.
    known = next(at for at, line in enumerate(lines, start=1) if WORDS in line)
    growing.write_text("".join(lines[:known]), encoding="utf-8")
    with (
        being_written(growing),
        serving(tmp_path) as viewer,
        tab(browser, own_window=True) as opened,
    ):
        page = opened.page
        page.clock.install()
        page.goto(f"http://127.0.0.1:{viewer.port}/#experiment=match%2Fresults.sqlite")
        page.get_by_role("link", name="Watch").click()
        page.locator(".film-card.is-acting").wait_for()
        expect(page.locator(".film-name bdi")).to_have_text(["gpt-5-nano", "novice", "novice"])
        expect(page.locator(".film-words").first).to_have_text(WORDS)
        expect(page.locator(".film-cost").first).to_have_text("$0.0021")
        expect(page.locator(".film-standings")).to_contain_text("strong")
        # The clock of who thinks runs on, until the next move is there.
        clock = page.locator(".is-acting .film-clock")

        def has_minutes() -> bool:
            page.clock.run_for(8_000)
            return clock.first.inner_text() >= "1:05"

        opened.wait_until(has_minutes)
        growing.write_text("".join(lines), encoding="utf-8")
        growing.rename(growing.with_suffix(""))

        def has_ended() -> bool:
            page.clock.run_for(4_000)
            return page.locator(".result").is_visible()

        opened.wait_until(has_ended)
        assert "Player 0" not in page.locator(".film").inner_text()
        assert not axe_findings(page) and opened.overflow() == 0 and not opened.faults


@pytest.mark.browser
def test_finished_games_are_shown_one_after_another(browser: Browser, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        for number in (1, 2):
            pool.submit(record, tmp_path, f"game{number}", number, "hanabi").result()
    with serving(tmp_path) as viewer, tab(browser, NARROW, "dark") as opened:
        page = opened.page
        page.goto(f"http://127.0.0.1:{viewer.port}/#watch=")
        where = page.locator(".film-where")
        where.wait_for()
        page.keyboard.press("Space")
        expect(page.get_by_role("button", name="Go on")).to_be_visible()
        page.keyboard.press("Space")
        first = where.inner_text()
        opened.wait_until(lambda: where.inner_text() != first)  # It goes on by itself.
        assert box_of(page.locator(".tabletop"))["width"] > NARROW[0] / 2
        length = first.split("/")[1]
        page.get_by_role("button", name="Next game").click()
        # The place is empty while the next game is loaded.
        opened.wait_until(lambda: where.inner_text().partition("/")[2] not in ("", length))
        assert not axe_findings(page) and opened.overflow() == 0 and not opened.faults


@pytest.mark.browser
def test_a_film_of_models_has_their_cards(browser: Browser, game: Path, tmp_path: Path) -> None:
    replay, file = read_replay(game), tmp_path / "film.html"
    for seat, cards in ((None, 3), (1, 0)):
        file.write_text(film_page(replay, seat), encoding="utf-8")
        with tab(browser, (960, 540)) as opened:
            opened.page.goto(file.as_uri())
            opened.page.evaluate("async () => (await film).fit(0, 9)")
            expect(opened.page.locator(".film-card")).to_have_count(cards)
            assert opened.overflow() == 0 and not opened.faults


# The command


def test_a_wrong_match_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("missing", "--watch missing: there is no such folder; name the --out of arena eval"),
        ("empty", "--watch empty: no game is recorded in this folder, and none is running"),
    ):
        assert run(["web", str(tmp_path), "--watch", name, "--port", "0"]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


def test_a_match_that_has_ended_says_so(tmp_path: Path) -> None:
    record(tmp_path / "runs" / "match", "game")
    for folder, name, fragment in (("runs", "match", "match"), ("other", "runs/match", "")):
        process = started(f"web {folder} --watch {name} --port 0", tmp_path)
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(2)]
        finally:
            process.kill()
            process.communicate()
        assert (
            lines[0] == f"The match in {name} has ended: its games are shown one after another.\n"
        )
        assert f"/#watch={fragment} in a browser" in lines[1]
