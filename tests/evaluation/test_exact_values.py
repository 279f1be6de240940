"""Exact values of policies, against what theory says of Kuhn poker and against brute force."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest
from equilibria import cfr_plus, game_value, solve
from exact_policies import best_response_value, information_sets
from random_games import uniform

from arena.core.action import Action
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import Observation
from arena.evaluation import exact as tree_module
from arena.evaluation.exact import (
    GameTree,
    InformationSet,
    Policy,
    estimated_positions,
    expected_returns,
    exploitability,
    game_tree,
)
from arena.plugins.catalog import make_game
from games.goofspiel.game import Goofspiel
from games.kuhn_poker.game import BET, PASS, CardDealt, KuhnPoker, Moved
from games.leduc_poker.rules import LeducPoker
from games.liars_dice.rules import LiarsDice

KUHN = KuhnPoker()


def betting(chances: Mapping[str, float]) -> Policy:
    """Bets with a probability by card and moves so far, e.g. `{"K": 1.0, "Q pb": 0.5}`; else 0."""

    def policy(observation: Observation) -> Mapping[Action, float]:
        card = next(event.card for event in observation.events if isinstance(event, CardDealt))
        moves = "".join(event.move[0] for event in observation.events if isinstance(event, Moved))
        bet = chances.get(f"{card[0]} {moves}".strip(), 0.0)
        return {BET: bet, PASS: 1 - bet}

    return policy


def equilibrium(alpha: float) -> Policy:
    """Kuhn's solution: player 0 bluffs with probability alpha, at most 1/3."""
    first = {"J": alpha, "K": 3 * alpha, "Q pb": alpha + 1 / 3, "K pb": 1.0}
    second = {"J p": 1 / 3, "K p": 1.0, "Q b": 1 / 3, "K b": 1.0}
    return betting(first | second)


def drawn(game: Game, seed: int) -> Policy:
    """Any policy, drawn at random."""
    rng, rows = random.Random(seed), {}
    for key, situation in information_sets(game).items():
        actions = situation.observation.legal_actions
        weights = [rng.random() for _ in actions]
        rows[key] = {a: w / sum(weights) for a, w in zip(actions, weights, strict=True)}
    return table(rows)


def table(rows: Mapping[InformationSet, Mapping[Action, float]]) -> Policy:
    return lambda observation: rows[InformationSet.of(observation)]


def test_kuhn_poker_has_twelve_information_sets_and_their_ways() -> None:
    found = information_sets(KUHN)
    assert [key.player for key in found].count(0) == [key.player for key in found].count(1) == 6
    late = [situation for situation in found.values() if situation.before]
    assert len(late) == 3
    for situation in late:
        (move,) = situation.before
        assert move.action == PASS
        assert move.observation.events == situation.observation.events[:1]


@pytest.mark.parametrize("alpha", [0, 0.1, 1 / 3])
def test_the_equilibria_cannot_be_exploited(alpha: float) -> None:
    policy = equilibrium(alpha)
    assert exploitability(KUHN, policy) == pytest.approx(0, abs=1e-12)
    assert expected_returns(KUHN, [policy, policy]) == pytest.approx([-1 / 18, 1 / 18])
    assert best_response_value(KUHN, [policy, uniform], 1) == pytest.approx(1 / 18)


def test_too_much_bluffing_can_be_exploited() -> None:
    """Who bets every Jack is called by every Queen: one chip more for each of those deals."""
    bluffing = betting({"J": 1, "K": 1, "Q pb": 2 / 3, "K pb": 1})
    called = betting({"Q b": 1, "K b": 1, "J p": 1 / 3, "K p": 1})
    gain = best_response_value(KUHN, [bluffing, uniform], 1) - 1 / 18
    assert gain >= expected_returns(KUHN, [bluffing, called])[1] - 1 / 18 > 0.05


def test_values_that_were_found_by_hand() -> None:
    """Against who always bets: fold the Jack (-1), call the Queen (0) and the King (2)."""
    always = betting(
        {f"{card} {moves}".strip(): 1 for card in "JQK" for moves in ("", "p", "b", "pb")}
    )
    for player in (0, 1):
        assert best_response_value(KUHN, [always, always], player) == pytest.approx(1 / 3)
    assert exploitability(KUHN, always) == pytest.approx(1 / 3)
    # Against who never bets, a bet takes every pot.
    assert exploitability(KUHN, betting({})) == pytest.approx(1)
    # OpenSpiel gives NashConv 11/12 to the uniform policy.
    assert exploitability(KUHN, uniform) == pytest.approx(11 / 24)
    assert expected_returns(KUHN, [uniform, uniform]) == pytest.approx([1 / 8, -1 / 8])


@pytest.mark.parametrize(("game", "player"), [(KUHN, 0), (KUHN, 1), (Goofspiel(cards=2), 1)])
def test_the_best_response_is_the_best_of_all_pure_policies(game: Game, player: int) -> None:
    other = drawn(game, seed=player)
    own = {k: s.observation for k, s in information_sets(game).items() if k.player == player}
    values = []
    for choice in product(*(observation.legal_actions for observation in own.values())):
        chosen = {key: {action: 1.0} for key, action in zip(own, choice, strict=True)}
        policies: list[Policy] = [other, other]
        policies[player] = table(chosen)
        values.append(expected_returns(game, policies)[player])
    assert best_response_value(game, [other, other], player) == pytest.approx(max(values))


@pytest.mark.parametrize(("cards", "best"), [(3, 0.0), (4, 1.0)])
def test_sealed_bids_are_not_seen(cards: int, best: float) -> None:
    """Against highest first: give the first prize away for the lowest card, win all others."""
    game = Goofspiel(cards=cards, prizes="descending")

    def highest(observation: Observation) -> Mapping[Action, float]:
        return {observation.legal_actions[-1]: 1.0}

    assert best_response_value(game, [highest, highest], 0) == pytest.approx(best)
    # A bid that was seen could always be beaten or undercut; a uniform one is a gamble.
    assert best_response_value(game, [uniform, uniform], 0) < 0.8


@pytest.mark.parametrize("given", [{PASS: 0.5}, {PASS: 1.5, BET: -0.5}, {}])
def test_what_is_no_distribution_is_named(given: dict[Action, float]) -> None:
    with pytest.raises(UsageError, match="not a distribution over pass, bet"):
        exploitability(KUHN, lambda _: given)


def test_a_policy_for_each_player() -> None:
    with pytest.raises(UsageError, match=r"KuhnPoker\(\) needs 2 policies, not 1"):
        expected_returns(KUHN, [uniform])


# The tree as arrays


def test_an_action_value_is_what_its_choice_changes() -> None:
    """Replacing the choice at I changes u_i by P(I) times the difference of the action values."""
    tree = GameTree(make_game("kuhn_poker"))
    policy = tree.softmax(np.random.default_rng(0).normal(size=len(tree.sets)))
    values = tree.action_values(policy)
    for number, (first, situation) in enumerate(
        zip(tree.first_pairs, tree.situations, strict=True)
    ):
        player, returns = situation.observation.player, []
        for chosen in (first, first + 1):
            changed = np.where(tree.sets == number, 0.0, policy)
            changed[chosen] = 1.0
            returns.append(tree.values(changed)[0, player])
        reached = (returns[1] - returns[0]) / (values[first + 1] - values[first])
        # A third of the deals give the card; the moves before have probabilities below 1.
        assert 0 < reached < 1 / 3 + 1e-12
        if situation.observation.num_events == 1:
            assert reached == pytest.approx(1 / 3)


def test_the_tree_of_a_game_is_built_once() -> None:
    game = make_game("kuhn_poker")
    assert game_tree(game) is game_tree(game)


def test_a_size_is_estimated_from_random_games() -> None:
    assert estimated_positions(make_game("kuhn_poker")) == pytest.approx(55, rel=0.1)
    assert estimated_positions(make_game("leduc_poker")) == pytest.approx(1936, rel=0.1)


@pytest.mark.parametrize("name", ["cluedo", "tictactoe"])
def test_a_game_that_is_too_large_is_refused_with_its_size(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_module, "MOST_POSITIONS", 1000)
    with pytest.raises(UsageError, match=r"about \de\+\d+ positions, at most 1,000 are possible"):
        GameTree(make_game(name))


def test_the_limit_itself_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game("leduc_poker")  # It has 1,936 positions, too few for the estimate.
    monkeypatch.setattr(tree_module, "MOST_POSITIONS", 1935)
    with pytest.raises(UsageError, match="more than 1,935 positions"):
        GameTree(game)
    monkeypatch.setattr(tree_module, "MOST_POSITIONS", 1936)
    assert len(GameTree(game).situations) == 288


# Solvers


@pytest.mark.parametrize(
    ("game", "value"),
    [
        (KuhnPoker(), -1 / 18),
        # Of these players neither has an advantage.
        (Goofspiel(cards=3), 0.0),
        (LeducPoker(), -0.0856064),
    ],
)
def test_a_solved_game_has_its_value_and_cannot_be_exploited(game: Game, value: float) -> None:
    tree = game_tree(game)
    policy = solve(tree)
    assert tree.exploitability(policy) == pytest.approx(0, abs=1e-9)
    estimate = game_value(tree, policy)
    assert estimate.value == pytest.approx(value, abs=1e-6)
    assert estimate.low == pytest.approx(estimate.high, abs=1e-9)


def test_cfr_plus_approaches_the_equilibrium() -> None:
    tree = game_tree(LiarsDice(dice=1, faces=3))
    early, late = (tree.exploitability(cfr_plus(tree, n)) for n in (10, 200))
    assert 0 <= late < early / 5 and late < 0.005
    # The exact value is within the bounds of any policy.
    bounds, exact = game_value(tree, cfr_plus(tree, 10)), game_value(tree, solve(tree))
    assert bounds.low <= exact.value <= bounds.high


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_a_mixture_is_worth_what_its_draws_are(name: str) -> None:
    """The mean over all pairs of draws, each played through; not that of mean probabilities."""
    tree, rng = game_tree(make_game(name)), np.random.default_rng(1)
    policies = [tree.softmax(rng.normal(0, 3, len(tree.sets))) for _ in range(3)]
    weights = [0.2, 0.5, 0.3]
    drawn = 0.0
    for first, second in product(range(3), repeat=2):
        played = np.where(tree.players == 0, policies[first], policies[second])
        drawn += weights[first] * weights[second] * tree.values(played)[0, 0]
    mixed = tree.mixture(policies, weights)
    assert tree.values(mixed)[0, 0] == pytest.approx(drawn, abs=1e-12)
    mean = sum(w * policy for w, policy in zip(weights, policies, strict=True))
    assert tree.values(np.asarray(mean))[0, 0] != pytest.approx(drawn, abs=1e-3)
    assert tree.mixture(policies[:1], [1.0]) == pytest.approx(policies[0])


def test_a_set_that_no_policy_of_a_mixture_reaches_is_even() -> None:
    tree = game_tree(make_game("leduc_poker"))
    first = np.zeros(len(tree.sets))
    first[tree.first_pairs] = 1.0
    mixed = tree.mixture([first], [1.0])
    reached = np.add.reduceat(tree.plan(first), tree.first_pairs)[tree.sets] > 0
    assert np.array_equal(mixed[reached], first[reached]) and not reached.all()
    sizes = np.bincount(tree.sets)[tree.sets]
    assert np.array_equal(mixed[~reached], 1 / sizes[~reached])
