"""The examples in the docstrings of the bundled games."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "games.avalon.rules",
        "games.battleship.rules",
        "games.cluedo.analysis.assessor",
        "games.cluedo.game",
        "games.cluedo.inference.counting",
        "games.cluedo.inference.knowledge",
        "games.codenames.rules",
        "games.goofspiel.game",
        "games.hanabi.rules",
        "games.kuhn_poker.game",
        "games.negotiation.rules",
        "games.leduc_poker.rules",
        "games.leduc_poker.knowledge",
        "games.liars_dice.rules",
        "games.liars_dice.knowledge",
        "games.tictactoe.game",
        "games.werewolf.rules",
    ],
)
def test_examples_in_docstrings(module: str) -> None:
    results = doctest.testmod(import_module(module))
    assert results.attempted > 0 and results.failed == 0
