"""Functions of actions: a call means exactly one action, or says what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from function_calls import function_call

from arena.agents.action_tools import action_tools, called_action
from arena.core.action import Speech
from arena.core.errors import InvalidAction
from arena.plugins.catalog import catalog, make_game

GAMES = [name for name in catalog().names("game") if "/" not in name]


@pytest.mark.parametrize("name", GAMES)
def test_the_call_of_every_action_means_that_action(name: str) -> None:
    game = make_game(name)
    names = {tool.name for tool in action_tools(game)}
    for action in game.actions:
        function, arguments = function_call(action)
        assert function in names
        assert called_action(game, function, {**arguments}) == action


def test_speech_is_called_by_its_text() -> None:
    game = next(g for name in GAMES if (g := make_game(name)).actions.speech)
    kind: type[Speech] = game.actions.speech[0]
    function, arguments = function_call(kind("hello there"))
    assert called_action(game, function, {**arguments}) == kind("hello there")
    with pytest.raises(InvalidAction):
        called_action(game, function, {"text": ""})


def test_case_and_thoughts_do_not_count() -> None:
    game = make_game("cluedo", players=3)
    action = called_action(
        game,
        "SUGGEST",
        {"thoughts": "hm", "suspect": "miss scarlett", "weapon": "ROPE", "room": "Hall"},
    )
    assert str(action) == "suggest Miss Scarlett, Rope, Hall"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("Fly", {}, "there is no function 'Fly'; the functions are: Suggest, Accuse, Show, EndT"),
        ("Show", {}, "the call of Show lacks card; it takes card"),
        ("Show", {"card": "Rope", "to": 1}, "the call of Show has 'to'; it takes card"),
        ("EndTurn", {"x": 1}, "the call of EndTurn has 'x'; it takes no arguments"),
        ("Show", {"card": {"a": [1]}}, "is no action of this game, but show Miss Scarlett is one"),
        ("Show", {"card": "\x1b[2J" + "x" * 9999}, r"^Show\(card='.{3,70}'\) is no action"),
    ],
)
def test_a_wrong_call_is_one_line(function: str, arguments: Any, message: str) -> None:
    with pytest.raises(InvalidAction, match=message) as raised:
        called_action(make_game("cluedo", players=3), function, arguments)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 250
