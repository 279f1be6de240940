"""Each own game is played to its end by clicks only: on pieces of the table and on buttons."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from browsing import browsing, missing, tab
from clicking import choices, play_by_clicks
from play_server import PlayProcess, play_server

from arena.plugins.loader import make_game

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
pytest.importorskip("websockets")

GAMES: dict[str, dict[str, Any]] = {
    "avalon": {},
    "battleship": {"placement": "players", "width": 4, "height": 3, "ships": [2, 2]},
    "cluedo": {"variant": "cards", "players": 3},
    "codenames": {},
    "goofspiel": {},
    "hanabi": {},
    "kuhn_poker": {},
    "leduc_poker": {},
    "liars_dice": {},
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


@pytest.mark.parametrize("name", GAMES)
def test_a_game_by_clicks(server: PlayProcess, browser: Browser, name: str) -> None:
    options = GAMES[name]
    players = make_game(name, **options).num_players
    # A guesser has a table to click; a clue is written.
    seat = 2 if name == "codenames" else 0
    seats = ["human" if each == seat else "bot:random" for each in range(players)]
    token = server.table(name, seats, options=options)[0]
    with tab(browser, (1440, 900)) as opened:
        page = opened.page
        page.goto(f"{server.base}/play#{token}")
        page.locator(".play").wait_for()
        page.wait_for_selector(".is-turn, .play-result:not([hidden])")
        buttons = [kind for kind, _ in choices(page) if kind.startswith("play ")]
        assert len(buttons) <= MOST
        play_by_clicks(page, random.Random(4))
        assert opened.overflow() == 0 and not opened.faults
