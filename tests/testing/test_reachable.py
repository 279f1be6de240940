"""The conformance kit finds hidden information that players can reach by attribute."""

from __future__ import annotations

import functools
import random
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from arena.core.action_set import ActionSet
from arena.core.event import Event
from arena.core.game import State
from arena.core.observation import Notes
from arena.testing.non_interference import (
    check_non_interference,
    check_reachable,
    first_difference,
    reachable,
)
from games.cluedo.game import Cluedo
from games.cluedo.rules.setting import Show
from games.cluedo.rules.state import CluedoState, TurnPhase
from games.kuhn_poker.game import KuhnPoker, KuhnPokerState, KuhnText


class CachingState(CluedoState):
    """Keeps the refuter's legal actions on the game, under the cards that it holds."""

    def _legal_actions(self, player: int) -> ActionSet:
        if self.phase is TurnPhase.REFUTE:
            return self.game.action_set(self.choices, lambda: map(Show, self.choices))
        return super()._legal_actions(player)


class Caching(Cluedo):
    def initial_state(self) -> CluedoState:
        return CachingState(self)


@pytest.mark.parametrize("variant", ["cards", "classic"])
def test_a_cache_of_hidden_sets_on_the_game_is_found(variant: str) -> None:
    game = Caching(players=3, variant=variant)
    check_non_interference(game, 0, samples=4)  # Invisible in what a player sees.
    with pytest.raises(AssertionError, match=r"reach what is hidden.* at .*\.game\._action_sets"):
        check_reachable(game, 0)


# Ways to leave the deal of Kuhn poker where the other player can reach it.


@dataclass(frozen=True, slots=True)
class Glanced(Event):
    """An event with a field that neither its text nor its comparison shows."""

    cards: tuple[str, ...] = field(repr=False, compare=False)


@dataclass
class Table:
    """A mutable object."""

    cards: Any = None


class LeakyText(KuhnText):
    game: LeakyGame

    def new_notes(self, player: int) -> Notes:
        notes = Notes(self.game, player)
        notes.__dict__["table"] = self.game.hidden
        return notes

    def narrate(self, event: Event) -> str:
        return "" if isinstance(event, Glanced) else super().narrate(event)


class LeakyGame(KuhnPoker):
    Text = "test_reachable:LeakyText"
    hidden: Any = None
    shared: ClassVar[dict[str, Any]] = {}
    leak: ClassVar[Callable[[Any, State], None]]

    def initial_state(self) -> KuhnPokerState:
        return LeakyState(self)


class LeakyState(KuhnPokerState):
    def _deal(self, deal: Any) -> None:
        super()._deal(deal)
        type(self.game).leak(self.game, self)  # type: ignore[attr-defined]


def on_game(game: Any, state: Any) -> None:
    game.hidden = state.cards


def on_class(game: Any, state: Any) -> None:
    type(game).shared[str(state.cards)] = True


def in_mutable_object(game: Any, state: Any) -> None:
    game.hidden = [Table({"seats": np.array([ord(card[0]) for card in state.cards])})]


def in_closure(game: Any, state: Any) -> None:
    cards = state.cards
    game.hidden = lambda: cards


def in_bound_method(game: Any, state: Any) -> None:
    game.hidden = state.legal_actions


def in_partial(game: Any, state: Any) -> None:
    game.hidden = functools.partial(print, state.cards)


def in_weak_reference(game: Any, state: Any) -> None:
    game.table = Table(state.cards)
    game.hidden = weakref.ref(game.table)


def in_generator(game: Any, state: Any) -> None:
    def cards(hands: Any) -> Any:
        yield
        yield hands

    game.hidden = cards(state.cards)
    next(game.hidden)


def in_random_state(game: Any, state: Any) -> None:
    game.hidden = random.Random(str(state.cards))


def in_log(game: Any, state: Any) -> None:
    game.hidden = state.log


def in_property(game: Any, state: Any) -> None:
    type(game).dealer = property(lambda _: [state])


def in_order(game: Any, state: Any) -> None:
    game.hidden = dict.fromkeys(sorted("JQK", key="".join(card[0] for card in state.cards).find))


def in_set(game: Any, state: Any) -> None:
    game.hidden = {frozenset({state.cards})}


def in_event(game: Any, state: Any) -> None:
    state.log.append(Glanced(state.cards))


@pytest.mark.parametrize(
    "leak",
    [
        on_game,
        on_class,
        in_mutable_object,
        in_closure,
        in_bound_method,
        in_partial,
        in_weak_reference,
        in_generator,
        in_random_state,
        in_log,
        in_property,
        in_order,
        in_set,
        in_event,
    ],
)
def test_hidden_information_is_found_wherever_it_is(leak: Callable[[Any, State], None]) -> None:
    leaky = type("Leaky", (LeakyGame,), {"leak": staticmethod(leak), "shared": {}})
    with pytest.raises(AssertionError, match="reach what is hidden"):
        for seed in range(6):
            check_reachable(leaky(), seed)


class Remembering(Notes):
    """Notes that another player's events reach too."""

    cards: tuple[str, ...] = ()


class RememberingText(LeakyText):
    def new_notes(self, player: int) -> Notes:
        notes = Remembering(self.game, player)
        notes.cards = self.game.__dict__.pop("dealt", ())
        return notes


def test_notes_that_hold_hidden_information_are_found() -> None:
    class Leaky(LeakyGame):
        Text = "test_reachable:RememberingText"

    def leak(game: Any, state: Any) -> None:
        for player in range(2):
            game.dealt = state.cards
            assert state.observe(player).notes

    Leaky.leak = staticmethod(leak)
    with pytest.raises(AssertionError, match=r"at observation\._witnessed\._notes\.cards\[\d\]"):
        for seed in range(6):
            check_reachable(Leaky(), seed)


class Node:
    def __init__(self, value: object) -> None:
        self.value = value
        self.self = self


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        (1, 1, None),
        (1, True, "x"),
        (float("nan"), float("nan"), None),
        ([1, 2], (1, 2), "x"),
        ([1, 2], [1, 3], "x[1]"),
        ({1: 2, 3: 4}, {3: 4, 1: 2}, "x.keys()[0]"),
        ({1, "a", (2, 3)}, {(2, 3), "a", 1}, None),
        ({1}, {2}, "x.element"),
        ({"a": [1]}, {"a": [1, 2]}, "x['a']"),
        (Node([0]), Node([0]), None),
        (Node([0]), Node([1]), "x.value[0]"),
        (np.zeros(2), np.zeros(2), None),
        (np.zeros(2), np.zeros((2, 1)), "x"),
        (np.zeros(2), np.zeros(2, np.int8), "x"),
    ],
)
def test_first_difference(first: object, second: object, place: str | None) -> None:
    tokens = [token for token, _ in reachable(first, "x")]
    difference = first_difference(tokens, second)
    found = None if difference is None else difference.split(":")[0]
    assert found == (place and place.replace("x", "observation", 1))


def test_an_observation_holds_no_list_of_the_log_and_no_state() -> None:
    state = KuhnPoker().initial_state()
    state.apply(-1, state.sample_chance(random.Random(0)))
    observation = state.observe(0)
    lists = [
        path
        for token, path in reachable(observation)
        if isinstance(token, tuple) and token[0] in (list, KuhnPokerState, State)
    ]
    assert lists == ["observation._witnessed.events"]
    before = state.log.copy()
    observation._witnessed.events.clear()
    assert state.log.events == before.events and state.log.witnessed == before.witnessed
