"""What a person types: completion piece by piece, beginnings, near misses."""

from __future__ import annotations

import pytest
from known_deal import ENVELOPE, HANDS

from arena.agents.human import ActionCompleter, parse
from arena.core.errors import ActionError
from games.cluedo.game import Cluedo
from games.cluedo.rules.events import DealCards, EndTurn, Suggest

STATE = Cluedo(players=3).initial_state()
STATE.apply(-1, DealCards(ENVELOPE, HANDS))
SEEN = STATE.observe(0)


def test_completion_goes_piece_by_piece() -> None:
    completer = ActionCompleter(map(str, SEEN.legal_actions))
    assert list(completer.pieces("")) == ["suggest ", "accuse ", "end turn", "table", "all", "help"]
    assert list(completer.pieces("suggest mi")) == ["suggest Miss Scarlett, "]
    assert len(list(completer.pieces("suggest "))) == 6
    assert list(completer.pieces("suggest Miss Scarlett, r")) == [
        "suggest Miss Scarlett, Revolver, ",
        "suggest Miss Scarlett, Rope, ",
    ]
    assert len(list(completer.pieces("accuse Miss Scarlett, Rope, "))) == 9
    assert not list(completer.pieces("xyz"))


def test_beginnings_and_forgiving_spelling() -> None:
    assert parse("e", SEEN) == EndTurn()
    assert parse("SUGGEST mrs. white rope HALL", SEEN) == Suggest("Mrs White", "Rope", "Hall")


@pytest.mark.parametrize(
    "typed", ["suggest Mis Scarlett, Rope, Hall", "sugest Miss Scarlett Rope Hall"]
)
def test_near_misses_are_named(typed: str) -> None:
    with pytest.raises(ActionError, match="did you mean 'suggest Miss Scarlett, Rope, Hall'"):
        parse(typed, SEEN)


@pytest.mark.parametrize("typed", ["2", "quit", "show Rope", "suggest"])
def test_what_is_no_action_is_an_error(typed: str) -> None:
    with pytest.raises(ActionError):
        parse(typed, SEEN)
