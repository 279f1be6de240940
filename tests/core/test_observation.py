"""Observations and sets of actions: immutable snapshots whose pickles do not depend on use."""

from __future__ import annotations

import dataclasses
import pickle
import random

import numpy as np
import pytest

from arena.core.action import CHANCE
from arena.core.action_set import ActionSet
from arena.core.game import State
from arena.core.observation import Observation
from arena.plugins.catalog import make_game
from games.cluedo.rules.setting import Accuse, Suggest
from games.tictactoe.game import TicTacToe


def dealt(name: str = "cluedo") -> State:
    state = make_game(name).initial_state()
    while state.to_act == (CHANCE,):
        state.apply(CHANCE, state.sample_chance(random.Random(1)))
    return state


@pytest.mark.parametrize("name", ["game", "player", "events", "legal_actions"])
def test_an_observation_cannot_be_changed(name: str) -> None:
    observation = dealt().observe(0)
    # Frozen dataclasses with slots raise TypeError for a property such as `events`.
    with pytest.raises((AttributeError, TypeError)):
        setattr(observation, name, None)
    with pytest.raises((AttributeError, TypeError)):
        delattr(observation, name)


@pytest.mark.parametrize("name", ["actions", "table", "mask", "other"])
def test_a_set_of_actions_cannot_be_changed(name: str) -> None:
    legal = dealt().legal_actions(0)
    with pytest.raises(AttributeError, match=f"immutable: cannot set '{name}'"):
        setattr(legal, name, ())
    with pytest.raises(AttributeError, match=f"immutable: cannot delete '{name}'"):
        delattr(legal, name)
    with pytest.raises(ValueError, match="read-only"):
        legal.mask[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        legal.mask.setflags(write=True)


def test_later_moves_do_not_change_an_observation() -> None:
    state = dealt()
    observation = state.observe(0)
    events, text = observation.events, observation.text()
    state.apply(0, state.legal_actions(0)[0])
    assert observation.events == events and observation.text() == text
    assert len(state.observe(0).events) > len(events)
    assert observation.events_since(1) == events[1:]


def test_an_old_observation_has_old_notes() -> None:
    state = dealt()
    old = state.observe(0)
    before = old.arrays()
    state.apply(0, next(action for action in state.legal_actions(0) if type(action) is Suggest))
    state.observe(0).arrays()
    after = old.arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def use(observation: Observation) -> None:
    observation.text("deductions")
    observation.arrays()
    legal = observation.legal_actions
    assert legal.mask.sum() == len(legal)
    assert legal[0] in legal and legal.of(type(legal[0]))
    assert observation.parse(str(legal[0])) == legal[0]


@pytest.mark.parametrize("name", ["cluedo", "kuhn_poker", "goofspiel", "tictactoe"])
def test_the_bytes_of_a_pickle_do_not_depend_on_use(name: str) -> None:
    state = dealt(name)
    observation = state.observe(state.to_act[0])
    legal = ActionSet(observation.game.actions, observation.legal_actions.actions)
    before = [pickle.dumps(value) for value in (observation, legal, legal.table)]
    use(observation)
    use(dataclasses.replace(observation, legal_actions=legal))
    assert [pickle.dumps(value) for value in (observation, legal, legal.table)] == before
    again = pickle.loads(before[0])
    assert again == observation and again.text() == observation.text()
    assert (again.legal_actions.mask == observation.legal_actions.mask).all()
    assert pickle.loads(before[1]) == legal


def test_the_pickle_of_an_observation_is_small() -> None:
    state = dealt()
    observation = dataclasses.replace(state.observe(0), legal_actions=state.game.no_actions)
    assert len(pickle.dumps(observation)) < 2000, "without the table of actions"


def test_kinds_of_actions() -> None:
    legal = dealt().legal_actions(0)
    suggestions, accusations = legal.of(Suggest), legal.of(Accuse)
    assert suggestions and accusations
    assert len(suggestions) + len(accusations) + 1 == len(legal)
    assert legal.of(object) == legal.actions  # type: ignore[type-var]
    assert legal.of(int) == ()  # type: ignore[type-var]


def test_caches_of_a_shared_set_are_filled_from_the_start() -> None:
    shared = dealt().legal_actions(0)
    assert {"numbers", "_members", "_by_type", "mask"} <= set(vars(shared))
    before = set(vars(shared))
    use(dealt().observe(0))
    assert set(vars(shared)) == before


@pytest.mark.parametrize("numbers", [(), (4,), (8, 0, 4), (8, 1, 0, 4, 2, 7)])
def test_a_set_by_numbers_equals_the_set_of_its_actions(numbers: tuple[int, ...]) -> None:
    table = TicTacToe().actions
    expected = table.subset([table[number] for number in numbers])
    for action in table:
        # A set of its own each time: what is asked first must not matter.
        assert (action in table.numbered(numbers)) == (action in expected)
    found = table.numbered(numbers)
    assert len(found) == len(numbers) and bool(found) == bool(numbers)
    assert (found.mask == expected.mask).all() and found == expected
    assert found.actions == expected.actions and found.numbers == expected.numbers


def test_a_public_set_is_one_complete_object() -> None:
    table = TicTacToe().actions
    shared = table.public((8, 0, 4))
    assert shared is table.public((8, 0, 4)) is not table.public((0, 4, 8))
    assert vars(shared).keys() == vars(table.numbered((8, 0, 4)).complete()).keys()
    assert pickle.dumps(table) == pickle.dumps(TicTacToe().actions), "without the sets"


def test_rules_without_words_give_the_notation() -> None:
    class Wordless(TicTacToe):
        name = "wordless"
        summary = "three in a row"
        Text = "arena.core.observation:GameText"

    rules = Wordless().text.rules()
    assert rules == "wordless, 2 players: three in a row.\nYour action, for example: mark 1 1"
