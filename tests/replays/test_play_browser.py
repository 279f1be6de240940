"""Playing in a real browser: whole games by mouse and by keyboard, at three sizes."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest
from browsing import Tab, axe_findings, browsing, expect, tab
from clicking import play_to_the_end, step
from play_server import PlayProcess, play_server
from served_games import wait_for_view

from arena.episodes.replay import read_replay, verify
from arena.plugins.catalog import make_game

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser
pytest.importorskip("websockets")

ATTACK = "<img src=x onerror=top.hacked=1>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayProcess]:
    folder = tmp_path_factory.mktemp("play")
    with play_server(
        "cluedo -o variant=classic --players 3 --seed 2 --set delay=0", folder
    ) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as started:
        yield started


def opened_at(server: PlayProcess, opened: Tab, token: str) -> Page:
    opened.page.goto(f"{server.base}/play#{token}")
    opened.page.locator(".play").wait_for()
    return opened.page


def wait_for_turn(page: Page) -> bool:
    """Return whether it is the person's turn; False after the end."""
    page.wait_for_selector(".is-turn, .play-result:not([hidden])")
    return page.locator(".play-result:not([hidden])").count() == 0


def choose(page: Page, *pieces: str) -> None:
    """Click pieces of the table, such as cards; a room of the board is clicked at its card."""
    for piece in pieces:
        page.locator(f".pickable[data-picks='{piece}']").last.click()


def test_a_whole_game_on_the_board(server: PlayProcess, browser: Browser) -> None:
    """By mouse: rooms are clicked on the board; then the game is lost by a wrong accusation."""
    with tab(browser, (1440, 900)) as opened:
        page = opened_at(server, opened, server.tokens[0])
        assert wait_for_turn(page)
        page.get_by_role("button", name="roll", exact=True).click()
        # Before the throw a click on a room begins an accusation.
        page.get_by_text("the throw reaches the bright squares and rooms").wait_for()
        page.locator("svg .pickable[data-picks='Lounge']").click(position={"x": 30, "y": 60})
        page.get_by_text("The throw does not reach the Lounge").wait_for()
        page.get_by_role("button", name="Yes: move Lounge").click()
        page.locator(".play-event", has_text="Miss Scarlett goes to").first.wait_for()
        page.get_by_label("Probabilities").check()
        page.locator(".play-help table.grid").wait_for()
        while wait_for_turn(page):
            accuse = page.get_by_role("button", name="accuse …")
            if accuse.count():
                accuse.click()
                choose(page, "Mrs White", "Rope", "Hall")
                page.get_by_role("button", name=re.compile("^accuse [A-Z]")).click()
                page.get_by_text("This cannot be taken back. Sure?").wait_for()
                page.get_by_role("button", name="Yes: accuse").click()
                page.locator(".play-event", has_text="Player 1 accuses Mrs White").wait_for()
                break
            move(page, page.locator("[data-choice^='play ']").last)
        play_to_the_end(page, random.Random(0))
        expect(page.locator(".play-result.lost h2")).to_have_text(re.compile("^You lost: "))
        page.get_by_role("button", name="Review my mistakes").click()
        bar = page.get_by_role("group", name="Review")
        bar.get_by_text("Mistake 1 of").wait_for()
        page.locator(".decision", has_text="accuse").wait_for()
        bar.get_by_role("button", name="See the whole game").click()
        wait_for_view(opened, None)
        page.get_by_role("slider").fill("3")
        opened.wait_for_position(3)
        page.get_by_role("button", name="Play on").click()
        assert wait_for_turn(page)
        page.locator(".play-event", has_text="Player 1 throws").wait_for()
        assert not opened.faults
    [replay] = map(read_replay, server.out.glob("cluedo-classic-3p-seed2.jsonl"))
    assert verify(replay) is None and replay.header.players[0] == "human"


def move(page: Page, button: Locator) -> None:
    """Play an action by its button, and wait until it is played."""
    events = page.locator(".play-event").count()
    button.click()
    # Each of the person's own moves is an event that the page shows, and its turn is over then.
    page.locator(".play-event").nth(events).wait_for()


# Levels in words, then the other bots.
SEATS = {
    "cluedo": [
        *["easy (Novice)", "fair (Detective)", "strong (Oracle)"],
        "bot:random",
    ],
    "hanabi": [
        *["easy (one move in four is random)", "fair and strong (Conventions)"],
        "bot:random",
    ],
}


def test_players_keep_scores_in_other_seats(server: PlayProcess, browser: Browser) -> None:
    script = """async (game) => {
        const series = new (await import("/page/series.js")).Series(""), over = { scores: [1, 0] };
        const play = async () => (await series.next(game), series.add({ seats: ["A", "B"] }, over));
        return [await play(), await play(), await play(), await play()].at(-1); }"""
    with tab(browser) as opened:
        opened.page.goto(f"{server.base}/play")
        game = {"name": "kuhn_poker", "specs": ["human", "bot:random"]}
        assert opened.page.evaluate(script, game) == "After 4 games: A 2 wins, B 2 wins."


def test_two_people_at_one_table(server: PlayProcess, browser: Browser) -> None:
    """A new game by the form; its links; both play; a page that is loaded again loses nothing."""
    with tab(browser) as host, tab(browser, (390, 844)) as guest:
        host.page.goto(f"{server.base}/play")
        games = host.page.get_by_role("group", name="Game")
        expect(games).to_contain_text("Player 2")
        expect(games).not_to_contain_text("Player 0")
        level = host.page.get_by_label("Level of the others")
        level.select_option("level:strong")
        for name, others in SEATS.items():
            games.get_by_role("radio", name=name).check(force=True)
            expect(host.page.get_by_label("Seat 2").locator("option")).to_have_text(
                ["a person, by link", *others]
            )
        # The bot of Hanabi that is both fair and strong.
        expect(level).to_have_value("level:fair")
        games.get_by_role("radio", name="Tic-tac-toe").check(force=True)
        host.page.get_by_label("Seat 2").select_option("human")
        host.page.get_by_label("Seconds between moves").fill("0")
        host.page.get_by_role("button", name="Start").click()
        links = [
            host.page.get_by_role("textbox", name=name).input_value()
            for name in ("Seat 1", "Seat 2", "To watch")
        ]
        host.page.goto(links[0])
        host.page.get_by_text("Waiting for Player 2 to open the link").wait_for()
        guest.page.goto(links[1])
        pages = [host.page, guest.page]
        for square in ("1 1", "2 2", "1 2", "3 3", "1 3"):
            page = pages[0]
            page.locator(".is-turn").wait_for()
            page.locator(f".pickable[data-picks='mark {square}']").click()
            page.locator(".play:not(.is-turn)").wait_for()
            if square == "2 2":
                host.page.reload()
                host.page.locator(".play-event").nth(1).wait_for()
            pages.reverse()
        host.page.locator(".play-event").nth(4).wait_for()
        expect(guest.page.locator(".play-event")).to_have_count(5)
        assert guest.overflow() == 0
        assert not host.faults and not guest.faults


def test_rules_a_hint_and_a_sheet(server: PlayProcess, browser: Browser) -> None:
    """The sheet is kept in the browser; a press changes a mark."""
    seats = ["human", "bot:random", "bot:random"]
    [token, _] = server.table("cluedo", seats, options={"players": 3})
    with tab(browser, (390, 844)) as opened:
        page = opened_at(server, opened, token)
        assert wait_for_turn(page)
        page.get_by_role("button", name="Rules").click()
        page.get_by_role("dialog").get_by_text("the three cards in the envelope").wait_for()
        assert not axe_findings(page, "minor", "moderate")
        page.get_by_role("button", name="Close").click()
        for _ in range(2):
            page.get_by_role("button", name="Miss Scarlett, Envelope").click()
        page.get_by_role("button", name="Mrs White, Player 1, no mark").click()
        page.get_by_label("Private notes").fill("Mustard looks nervous")
        page.get_by_role("button", name="Undo").click()
        page.get_by_role("button", name="Mrs White, Player 1, no mark").wait_for()
        page.reload()
        page.get_by_role("button", name="Miss Scarlett, Envelope, no").wait_for()
        expect(page.get_by_label("Private notes")).to_have_value("Mustard looks nervous")
        page.get_by_role("button", name="What would a strong player do?").click()
        page.get_by_text("A strong player would choose").wait_for()
        _check(opened)


def test_hostile_speech_is_text(server: PlayProcess, browser: Browser) -> None:
    seats = ["human", *["bot:random"] * 6]
    [token, _] = server.table("werewolf", seats, options={"players": 7})
    with tab(browser, (1024, 768)) as opened:
        page = opened_at(server, opened, token)
        for _ in range(20):
            if not wait_for_turn(page):
                break
            talk = page.get_by_role("textbox", name="say", exact=True)
            if talk.count():
                talk.fill(ATTACK)
                talk.press("Enter")
                page.locator(".play-event", has_text="onerror").first.wait_for()
                break
            step(page, random.Random(0))
        assert page.evaluate("top.hacked") is None
        expect(page.locator("main img")).to_have_count(0)
        assert not opened.faults


@pytest.mark.parametrize("size", [(390, 844), (1440, 900)])
def test_pages_fit_and_are_accessible(
    server: PlayProcess, browser: Browser, size: tuple[int, int]
) -> None:
    seats = ["human", "bot:random", "bot:random"]
    [token, _] = server.table("cluedo", seats, options={"players": 3, "variant": "classic"})
    with tab(browser, size) as opened:
        opened.page.goto(f"{server.base}/play")
        opened.page.get_by_role("heading", name="New game").wait_for()
        _check(opened)
        page = opened_at(server, opened, token)
        assert wait_for_turn(page)
        page.get_by_role("button", name="accuse …").click()
        page.get_by_label("Probabilities").check()
        page.locator(".play-help table.grid").wait_for()
        _check(opened)
        choose(page, "Mrs White", "Rope", "Hall", "Hall")
        page.get_by_role("button", name=re.compile("^accuse [A-Z]")).click()
        page.get_by_text("Sure?").wait_for()
        _check(opened, "light", "dark")


def _check(opened: Tab, *schemes: Literal["light", "dark"]) -> None:
    """Check what the page shows, in one colour scheme after the other."""
    for scheme in schemes or ("light",):
        opened.page.emulate_media(color_scheme=scheme)
        opened.wait_for_paint()
        assert opened.page.evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
        assert not axe_findings(opened.page, "minor", "moderate")
        assert opened.overflow() == 0
    assert not opened.faults


# What the first turns of a guided game say to do: pieces, then a button.
LESSONS = {
    # A second suspect takes the place of the first one.
    "cluedo": [
        (["Miss Scarlett", "Dagger", "Conservatory", "Mrs White"], "suggest Mrs White, Dagger"),
    ],
    "hanabi": [
        (["hint Player 1 green|hint Player 1 rank 1"], "hint Conventions rank 1"),
        (["slot 1"], "discard slot 1"),
        (["slot 1"], "play slot 1"),
    ],
    "avalon": [(["Player 0", "Player 3"], "propose Player 1, Deducer 3"), ([], "approve")],
}


@pytest.mark.parametrize("name", LESSONS)
def test_a_guided_game(server: PlayProcess, browser: Browser, name: str) -> None:
    """Its deal is fixed; each hint is shown once, in a turn in which it helps."""
    guide = make_game(name).text.guide()
    assert guide is not None and guide.first_game is not None
    made = make_game(name, **dict(guide.first_game.options))
    verbs = {str(action).split()[0] for action in made.actions}
    assert verbs >= {verb for verb, _ in guide.first_game.hints}
    with tab(browser, (390, 844)) as opened:
        page = opened.page
        page.goto(f"{server.base}/play?game={name}")
        page.get_by_label("Seconds between moves").fill("0")
        page.get_by_role("button", name="Play a guided game").click()
        lesson = page.locator(".play-lesson")
        for (_, text), (pieces, button) in zip(guide.first_game.hints, LESSONS[name], strict=False):
            expect(lesson).to_have_text(text)
            choose(page, *pieces)
            page.get_by_role("button", name=button).click()
        _, text = guide.first_game.hints[len(LESSONS[name])]
        expect(lesson).to_have_text(text)
        _check(opened)


# Two messages as of a night: three events, then one more with a new turn.
NIGHT = """async () => {
  const { Pacing } = await import('/page/pacing.js');
  window.shown = [];
  window.pacing = new Pacing((message) => window.shown.push(message));
  document.body.append(window.pacing.element);
  const parts = { turn: null, scene: 'day' };
  window.pacing.take({ now: 1, first: 4, events: ['a', 'b', 'c'], parts });
  window.pacing.take({ now: 2, first: 7, events: ['d'], parts: { turn: { until: null } } });
}"""
SHOWN = (
    "window.shown.map(({ first, events, parts }) => [first, events[0], Object.keys(parts).join()])"
)


def test_a_night_is_shown_event_by_event(server: PlayProcess, browser: Browser) -> None:
    """Events have pauses; the own turn ends at once, and the picture follows the last event."""
    all_shown = [[4, "a", "turn"], [5, "b", ""], [6, "c", "turn,scene"], [7, "d", "turn"]]
    with tab(browser, own_window=True) as opened:
        page = opened.page
        page.clock.install()
        page.emulate_media(reduced_motion="no-preference")
        page.goto(f"{server.base}/play")
        with opened.stopped_clock():
            page.evaluate(NIGHT)
            for number in (1, 2, 3, 4):
                assert page.evaluate(SHOWN) == all_shown[:number]
                page.clock.run_for(700)
            page.evaluate(NIGHT)
            page.evaluate("window.pacing.input.click()")
            assert page.evaluate(SHOWN) == all_shown
            # It is remembered, and less motion is obeyed where nothing was chosen.
            page.evaluate(NIGHT)
            assert page.evaluate(SHOWN) == all_shown
            page.evaluate("localStorage.clear()")
            page.emulate_media(reduced_motion="reduce")
            page.evaluate(NIGHT)
            assert page.evaluate(SHOWN) == all_shown
        assert not opened.faults
