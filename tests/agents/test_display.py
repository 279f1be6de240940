"""The end of a game in plain words."""

from __future__ import annotations

import pytest

from arena.agents.display import ending
from arena.core.event import Outcome
from arena.plugins.catalog import make_game


@pytest.mark.parametrize(
    ("spec", "outcome", "seat", "expected"),
    [
        (
            "cluedo",
            Outcome("terminated", "Player 3 made the right accusation", (0.0, 0.0, 0.0, 1.0)),
            0,
            "You lost: Player 3 made the right accusation.",
        ),
        (
            "cluedo",
            Outcome("terminated", "Player 3 made the right accusation", (0.0, 0.0, 0.0, 1.0)),
            3,
            "You won: Player 3 made the right accusation.",
        ),
        (
            "cluedo",
            Outcome("terminated", "every player has made a false accusation", (0.0,) * 4),
            1,
            "No player won: every player has made a false accusation.",
        ),
        (
            "cluedo",
            Outcome("truncated", "stopped after 9 turns", (0.0,) * 4),
            None,
            "No result: stopped after 9 turns.",
        ),
        (
            "kuhn_poker",
            Outcome("terminated", "Player 1 folds", (1.0, -1.0)),
            1,
            "You lost: Player 1 folds. Player 0: +1 chip, Player 1: −1 chip.",
        ),
        (
            "kuhn_poker",
            Outcome("terminated", "Player 1 has the higher card", (-2.0, 2.0)),
            None,
            "Player 1 won: Player 1 has the higher card. Player 0: −2 chips, Player 1: +2 chips.",
        ),
        (
            "tictactoe",
            Outcome("terminated", "Player 1 has three in a row", (-1.0, 1.0)),
            0,
            "You lost: Player 1 has three in a row.",
        ),
        (
            "leduc_poker",
            Outcome("terminated", "both hands are equal", (0.0, 0.0)),
            0,
            "Draw: both hands are equal. Player 0: 0 chips, Player 1: 0 chips.",
        ),
        (
            "hanabi",
            Outcome("terminated", "the deck is empty; score 17 of 25", (17.0, 17.0), (), (0, 0)),
            0,
            "The game is over: the deck is empty; score 17 of 25.",
        ),
        (
            "hanabi",
            Outcome("truncated", "stopped after 9 turns", (7.0, 7.0), (), (0, 0)),
            0,
            "No result: stopped after 9 turns. 7 points for all.",
        ),
        (
            "werewolf",
            Outcome(
                "terminated",
                "all werewolves are dead: the village wins",
                (1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0),
                (),
                (0, 0, 1, 0, 0, 0, 0),
            ),
            2,
            "Your team lost: all werewolves are dead: the village wins.",
        ),
    ],
)
def test_ends_in_plain_words(spec: str, outcome: Outcome, seat: int | None, expected: str) -> None:
    assert ending(make_game(spec), outcome, seat) == expected
