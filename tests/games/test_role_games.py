"""Werewolf and Avalon: the exact posterior against brute force, other worlds, conformance."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from role_games import played, posterior
from role_search import possible_roles

from arena import make_game
from arena.testing import check_game
from games.hidden_roles.knowledge import HiddenRolesAnalysis
from games.hidden_roles.rules import HiddenRolesGame, HiddenRolesState


def role_game(name: str, **options: JsonValue) -> HiddenRolesGame:
    game = make_game(name, **options)
    assert isinstance(game, HiddenRolesGame)
    return game


def names_of(game: HiddenRolesGame, state: HiddenRolesState, player: int) -> set[tuple[str, ...]]:
    """Return the assignments of roles that a player holds possible."""
    return {
        tuple(game.distinct_roles[role] for role in column)
        for column in posterior(state, player).worlds.T
    }


@pytest.mark.parametrize(
    ("name", "options", "seed"),
    [
        ("werewolf", {"players": 5}, 1),
        ("werewolf", {"players": 5, "wolves": 2}, 2),
        ("werewolf", {"players": 5, "witch": True}, 1),
        ("werewolf", {"players": 5, "witch": True, "quiet_first_night": True}, 4),
        ("werewolf", {"players": 5, "quiet_first_night": True}, 3),
        ("avalon", {}, 1),
        ("avalon", {"roles": "merlin"}, 2),
        ("avalon", {"roles": "none"}, 3),
        ("avalon", {"roles": "none", "lady": True}, 4),
    ],
)
def test_posterior_equals_brute_force(
    name: str, options: Mapping[str, JsonValue], seed: int
) -> None:
    check_posterior(role_game(name, talk=0, **options), seed)


@pytest.mark.parametrize("hidden", ["Mordred", "Oberon"])
def test_posterior_with_a_role_of_larger_games(hidden: str) -> None:
    game = role_game("avalon", talk=0)
    game.role_list = ("Merlin", "Percival", "Loyal Servant", "Assassin", hidden)  # type: ignore[misc]
    check_posterior(game, 2)


def check_posterior(game: HiddenRolesGame, seed: int) -> None:
    rng = random.Random(seed)
    _, history = played(game, seed)
    state, ends = game.initial_state(), []
    for number, step in enumerate(history):
        state.apply(step.player, step.action)
        if not state.sealed:
            ends.append(number + 1)
    analysis = game.analysis
    assert isinstance(analysis, HiddenRolesAnalysis)
    for length in ends[1:-1][:4] if game.name == "werewolf" else {*rng.sample(ends, 3), ends[-2]}:
        state = game.initial_state().apply_all(history[:length])
        for player in rng.sample(range(5), 3):
            assert names_of(game, state, player) == possible_roles(
                game,
                history[:length],
                player,
                analysis.hidden_phases,
                lambda world: tuple(vars(world).get(key) for key in ("protected", "victim")),
            )


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["werewolf", "avalon"]), st.integers(5, 8), st.integers(0, 10**6))
def test_truth_is_always_possible(name: str, players: int, seed: int) -> None:
    options: dict[str, JsonValue] = {"witch": seed % 3 > 0}
    if name == "avalon":
        options = {"lady": seed % 2 > 0}
    game = role_game(name, players=players, **options)
    state, _ = played(game, seed)
    truth = [game.distinct_roles.index(role) for role in state.roles()]
    for player in range(players):
        known = game.text.new_notes(player)
        for event in state.log.witnessed[player][:-1]:
            known.update(event)
        assert truth in known.worlds.T.tolist()  # type: ignore[attr-defined]
    assert sum(state.returns()) == state.teams().count(state.winner or 0)


@pytest.mark.parametrize(
    ("name", "options", "seeds"),
    [
        ("werewolf", {"players": 10, "talk": 0}, (3,)),
        ("werewolf", {"players": 6, "wolves": 2}, (0, 1)),
        ("werewolf", {"players": 7, "talk": 0, "witch": True}, (0, 1)),
        (
            "werewolf",
            {"players": 6, "plain": True, "quiet_first_night": True},
            (1,),
        ),
        ("werewolf", {"players": 5, "talk": "statements"}, (0, 1)),
        ("avalon", {"players": 6, "roles": "merlin", "talk": 0}, (0,)),
        ("avalon", {"players": 10, "talk": 0}, (7,)),
        ("avalon", {"players": 7, "talk": 0, "lady": True}, (1,)),
        ("avalon", {"players": 5, "talk": "statements"}, (1,)),
    ],
)
def test_conformance(name: str, options: Mapping[str, JsonValue], seeds: tuple[int, ...]) -> None:
    check_game(make_game(name, **options), seeds)
