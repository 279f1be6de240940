"""Panels of a person in play: they depend on what the seat knows."""

from __future__ import annotations

import random

import pytest
from other_worlds import world_pairs

from arena import Game, Observation, make_game
from arena.agents.seating import level_bot
from arena.plugins.catalog import catalog
from replays.web.play.advice import gives_advice, hint_json, strong_move
from replays.web.play.seat_view import SeatView, offer

OPTIONS: dict[str, dict[str, int | str]] = {
    "cluedo": {"players": 3, "variant": "classic"},
    "goofspiel": {"cards": 4},
    "werewolf": {"players": 5, "talk": 0},
    "codenames": {"rows": 3, "columns": 3},
}


def panels(game: Game, seen: Observation) -> list[object]:
    """Everything that the page of a seat is sent at a decision, with all help and advice."""
    view = SeatView(game, seen.player)
    view.help = "posterior"
    view.read(seen.events)
    view.turn = offer(seen, 0, None)
    sent: list[object] = [view.parts([], [], seen), view.events]
    if gives_advice(game):
        spec = level_bot(game, "strong")
        move = strong_move(game, spec, seen)
        sent.append(hint_json(game, spec, move, view.known()))
    return sent


@pytest.mark.parametrize("name", catalog().names("game"))
def test_panels_hold_nothing_that_the_seat_may_not_know(name: str) -> None:
    """They are equal in another world that the seat cannot tell from its own."""
    game, compared = make_game(name, **OPTIONS.get(name, {})), 0
    if game.analysis.resample([], 0, random.Random(0)) is None:
        pytest.skip("nothing is hidden")
    for seat in (0, game.num_players - 1):
        for mine, theirs in world_pairs(game, seat, 2):
            # The first, a middle and the last decision; a bot may think for a while.
            for at in {0, len(mine) // 2, len(mine) - 1} if mine else ():
                assert panels(game, mine[at]) == panels(game, theirs[at])
                compared += 1
    assert compared > 2
