"""Werewolf and Avalon: the exact posterior against brute force, other worlds, conformance."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from random_games import plies
from role_games import played, posterior
from role_search import possible_roles

from arena import Outcome, Seat, make_game
from arena.agents.agent import Agent, RandomBot
from arena.core.errors import UsageError
from arena.testing import check_game
from games.avalon.bots import AvalonDeducer
from games.hidden_roles.knowledge import HiddenRolesAnalysis, RoleAssessor
from games.hidden_roles.rules import HiddenRolesGame, HiddenRolesState
from games.werewolf.bots import WerewolfDeducer


def role_game(name: str, **options: JsonValue) -> HiddenRolesGame:
    game = make_game(name, **options)
    assert isinstance(game, HiddenRolesGame)
    return game


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        ("avalon", {"players": 4}, "players"),
        ("avalon", {"roles": "mrelin"}, "did you mean 'merlin'"),
        ("werewolf", {"players": 4}, "players"),
        ("werewolf", {"players": 6, "wolves": 3}, "fewer than half"),
        ("werewolf", {"seer": True}, "no option 'seer'"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, JsonValue], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        make_game(name, **options)


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
        ("werewolf", {"players": 5, "quiet_first_night": True}, 3),
        ("avalon", {}, 1),
        ("avalon", {"roles": "merlin"}, 2),
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
                lambda world: getattr(world, "protected", None),
            )


@pytest.mark.parametrize(("name", "seed"), [("avalon", 5), ("werewolf", 3)])
def test_decisions_of_the_majority_are_judged_by_what_it_knows(name: str, seed: int) -> None:
    game = role_game(name, talk=0)
    state, history = played(game, seed)
    assessor = RoleAssessor(game)
    judged = [each for ply in plies(game, history) for each in assessor.ply(ply)]
    # Merlin, who hides, is not judged.
    judges = {seat for seat, role in enumerate(state.roles()) if role != "Merlin"}
    assert {each.player for each in judged} <= judges
    assert judged and not any(state.teams()[each.player] for each in judged)
    assert all(number(a.facts["probability"]) <= number(a.facts["best"]) for a in judged)
    ends = assessor.end(Outcome("terminated", "", state.returns()))
    assert len(ends) == game.num_players
    assert all(number(a.facts["entropy_dealt"]) >= number(a.facts["entropy_end"]) for a in ends)


def number(value: JsonValue) -> float:
    assert isinstance(value, float)
    return value


Bot = Callable[[Seat], Agent]


@pytest.mark.parametrize(
    ("name", "bot", "games", "talk", "margin", "village", "margin_of_evil"),
    [
        ("avalon", AvalonDeducer, 60, 0, 9, RandomBot, 12),
        ("werewolf", WerewolfDeducer, 40, 1, 12, WerewolfDeducer, 5),
    ],
)
def test_deducers_win_more_in_both_teams(
    name: str, bot: Bot, games: int, talk: int, margin: int, village: Bot, margin_of_evil: int
) -> None:
    """Margins are in games that the majority wins."""
    game = role_game(name, talk=talk)

    @cache
    def wins(majority: Bot, minority: Bot) -> int:
        return sum(played(game, n, majority, minority)[0].winner == 0 for n in range(games))

    assert wins(bot, RandomBot) >= wins(RandomBot, RandomBot) + margin
    assert wins(village, bot) <= wins(village, RandomBot) - margin_of_evil


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["werewolf", "avalon"]), st.integers(5, 8), st.integers(0, 10**6))
def test_truth_is_always_possible(name: str, players: int, seed: int) -> None:
    game = role_game(name, players=players)
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
        ("werewolf", {"players": 6, "wolves": 2, "plain": True, "quiet_first_night": True}, (1,)),
        ("werewolf", {"players": 5, "talk": "statements"}, (0, 1)),
        ("avalon", {"players": 10, "talk": 0}, (7,)),
        ("avalon", {"players": 7, "roles": "merlin", "talk": 0}, (1,)),
        ("avalon", {"players": 5, "talk": "statements"}, (1,)),
    ],
)
def test_conformance(name: str, options: Mapping[str, JsonValue], seeds: tuple[int, ...]) -> None:
    check_game(make_game(name, **options), seeds)
