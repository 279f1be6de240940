"""The tables of the games: a person finds each legal action on them, and nothing leaks."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from reach import makes, picked, unreached

from arena.core.view import (
    Display,
    Offer,
    Panel,
    Squares,
    Stepper,
    Tile,
    TileRow,
    draw_tabletop,
)
from arena.plugins.catalog import make_game
from arena.testing.conformance import check_targets
from arena.testing.positions import random_positions
from games.hanabi.text import HanabiView

MOST = 12
"""Actions that a person may have to find in a list."""
GAMES: list[tuple[str, dict[str, Any]]] = [
    ("avalon", {"players": 10}),
    ("battleship", {"width": 10, "height": 10}),
    ("codenames", {}),
    ("goofspiel", {"players": 3, "cards": 13}),
    ("hanabi", {"players": 5}),
    ("kuhn_poker", {}),
    ("leduc_poker", {"players": 3}),
    ("liars_dice", {"players": 4, "dice": 5}),
    ("negotiation", {}),
    ("tictactoe", {}),
    ("werewolf", {"players": 9}),
]


@pytest.mark.parametrize(("name", "options"), GAMES)
def test_every_action_is_on_the_table_or_in_a_short_list(
    name: str, options: dict[str, Any]
) -> None:
    game = make_game(name, **options)
    check_targets(game, 1)
    for seed in range(2):
        for position in islice(random_positions(game, seed), 40):
            for seat in position.state.to_act:
                if seat < 0:
                    continue
                observation = position.state.observe(seat)
                table = draw_tabletop(game, observation.events, seat)
                assert table is not None
                texts = [str(action) for action in observation.legal_actions]
                left = unreached(table.panels, texts)
                assert len(left) <= MOST, (name, len(position.history), left[:20])


@pytest.mark.parametrize(("action", "fault"), [("play slot 1", "legal"), ("wink", "no action")])
def test_a_blocked_action_is_one_of_the_game_and_not_legal(
    action: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HanabiView, "_blocked", lambda _: [(action, "Not now.")])
    with pytest.raises(AssertionError, match=fault):
        check_targets(make_game("hanabi"), 1)


def test_a_line_that_has_won_and_a_sunk_ship_are_marked() -> None:
    """The text of a display is empty, since other parts say the same."""
    marked = {"tictactoe": "win", "battleship": "sunk", "codenames": "covered"}
    for name, look in marked.items():
        game = make_game(name)
        *_, last = random_positions(game, 1)
        table = draw_tabletop(game, last.state.log.events, None)
        assert table is not None and isinstance(table.panels[0], Squares)
        tiles = [tile for row in table.panels[0].rows for tile in row.tiles]
        assert look in {tile.look for tile in tiles}
    assert Display("Latest bids", (TileRow((Tile("3"),)),)).panel() == Panel("")


def test_phrases_are_whole_words() -> None:
    assert picked("propose Player 1, Player 10", ("Player 10",))
    assert not picked("propose Player 10", ("Player 1",))
    assert picked("place a1-a3", ("A3",)) and not picked("place a1-a3", ("a",))


def test_steppers_make_actions_within_their_limits() -> None:
    offer = Offer("keep {} {}", (Stepper("books", 2), Stepper("hats", 1)))
    assert makes(offer, "keep 2 0") and not makes(offer, "keep 2 2")
    assert not makes(offer, "keep 1 1 1") and offer.panel().rows == ()
