"""Each own game is played to its end by clicks only, and by keys only: on pieces and on buttons."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pytest
from browsing import NARROW, Tab, axe_findings, browsing, tab
from clicking import OVER, choices, click, play_to_the_end, press
from play_server import PlayProcess, play_server

from arena.plugins.catalog import make_game

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
pytest.importorskip("websockets")

# Small tables: a random player needs long to hit the last ship of a large one.
GAMES: dict[str, dict[str, Any]] = {
    "avalon": {"talk": 0},
    "battleship": {"width": 3, "height": 3, "ships": [2]},
    "cluedo": {"players": 3, "suspects": 3, "weapons": 3, "rooms": 3},
    "codenames": {},
    "goofspiel": {},
    "hanabi": {},
    "kuhn_poker": {},
    "leduc_poker": {},
    "liars_dice": {"dice": 1},
    "negotiation": {},
    "tictactoe": {},
    "werewolf": {},
}
MOST = 12
"""Buttons that a person may be offered beside the table."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayProcess]:
    folder = tmp_path_factory.mktemp("tables")
    with play_server("kuhn_poker --seed 2 --set delay=0", folder) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as started:
        yield started


@contextmanager
def seated(
    server: PlayProcess,
    browser: Browser,
    name: str,
    size: tuple[int, int],
    scheme: Literal["light", "dark"] = "light",
) -> Iterator[Tab]:
    """Open a table against random bots, and wait for the person's first turn."""
    options = GAMES.get(name, {})
    players = make_game(name, **options).num_players
    # A guesser has a table to click; a clue is written.
    seat = 2 if name == "codenames" else 0
    seats = ["human" if each == seat else "bot:random" for each in range(players)]
    token = server.table(name, seats, options=options)[0]
    with at_table(server, browser, token, size, scheme) as opened:
        yield opened


@contextmanager
def at_table(
    server: PlayProcess,
    browser: Browser,
    token: str,
    size: tuple[int, int],
    scheme: Literal["light", "dark"] = "light",
) -> Iterator[Tab]:
    with tab(browser, size, scheme) as opened:
        opened.page.goto(f"{server.base}/play#{token}")
        opened.page.locator(".play").wait_for()
        opened.page.wait_for_selector(f".is-turn, {OVER}")
        yield opened
        assert opened.overflow() == 0 and not opened.faults


@pytest.mark.parametrize("name", GAMES)
def test_a_game_by_clicks(server: PlayProcess, browser: Browser, name: str) -> None:
    with seated(server, browser, name, (1440, 900)) as opened:
        buttons = [kind for kind, _ in choices(opened.page) if kind.startswith("play ")]
        assert len(buttons) <= MOST
        play_to_the_end(opened.page, random.Random(4))
        # The latest event is on the table once, even if the table has a sentence of its own.
        sentences = opened.page.locator(".table-news, .table-caption").all_inner_texts()
        assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("name", ["cluedo", "codenames", "hanabi", "negotiation"])
def test_a_game_by_keys(server: PlayProcess, browser: Browser, name: str) -> None:
    """On the screen of a phone, where the controls take at most a quarter of the height."""
    heights: list[float] = []

    def choose(page: Page, number: int) -> None:
        # A turn may end meanwhile, by a player who decides at the same time.
        sizes = (
            "(all) => all.map((each) => [each.offsetHeight, each.scrollHeight - each.clientHeight])"
        )
        for height, hidden in page.locator(".is-turn .play-turn").evaluate_all(sizes):
            heights.append(height)
            assert hidden <= 0
        press(page, number)

    with seated(server, browser, name, NARROW, "dark") as opened:
        play_to_the_end(opened.page, random.Random(4), choose)
    assert max(heights, default=0) <= NARROW[1] / 4


# Of each card: its phrases, its classes, its own colours, and the contrast of its ring.
CARDS = """() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((each) => each / 255);
    const linear = parts.map((v) => (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4));
    return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
  };
  return [...document.querySelectorAll('.table-top [data-picks]')].map((card) => {
    const parts = [card, card.querySelector('.card-face')];
    const [own, face] = parts.map((each) => getComputedStyle(each));
    const [ring, ground] = [own.boxShadow, own.backgroundColor].map((each) => light(each) + .05);
    return {
      picks: card.dataset.picks.split('|'),
      look: [...card.classList],
      colours: [own.backgroundColor, own.backgroundImage, own.borderColor, face.color],
      contrast: Math.max(ring, ground) / Math.min(ring, ground),
    };
  });
}"""


def test_what_is_chosen_and_what_a_hint_is_about(server: PlayProcess, browser: Browser) -> None:
    """Its own colours stay. One card is enough: both hints are offered, each with its cards."""
    token = server.table("hanabi", [], guided=True)[0]
    with at_table(server, browser, token, (1440, 900)) as opened:
        page = opened.page
        page.locator(".table-top .pickable").first.wait_for()
        before = page.evaluate(CARDS)
        # The first pieces are the cards of the other player. The second shares colour and rank.
        assert choices(page)[1][0] == "piece"
        click(page, 1)
        hints = [kind for kind, _ in choices(page) if kind.startswith("play hint")]
        assert sorted(" rank " in hint for hint in hints) == [False, True]
        cards = page.evaluate(CARDS)
        for at, hint in enumerate(hints):
            about = [hint.removeprefix("play ") in card["picks"] for card in cards]
            assert about == [f"touched-{at}" in card["look"] for card in cards]
            assert sum(about) == 2
        assert "picked" in cards[1]["look"] and cards[1]["contrast"] >= 3
        assert [card["colours"] for card in cards] == [card["colours"] for card in before]
        assert not axe_findings(page, "minor", "moderate")


@pytest.mark.adapters
@pytest.mark.parametrize("name", ["connect_four", "tic_tac_toe"])
def test_a_game_of_open_spiel_by_clicks(server: PlayProcess, browser: Browser, name: str) -> None:
    pytest.importorskip("pyspiel")
    with seated(server, browser, f"open_spiel/{name}", NARROW) as opened:
        assert not [kind for kind, _ in choices(opened.page) if kind.startswith("play ")]
        play_to_the_end(opened.page, random.Random(4))
