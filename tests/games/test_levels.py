"""Bots of the levels easy, fair and strong."""

from __future__ import annotations

import asyncio
import random

import pytest

from arena import Match, State, make_game, play
from arena.agents.agent import Seat
from arena.agents.seating import LEVELS, bot_names, default_bot, level_bot
from arena.evaluation.exact import expected_returns, exploitability
from arena.plugins.catalog import catalog
from games.kuhn_poker.game import Honest, KuhnEquilibrium
from games.tictactoe.game import Blocking, Perfect


@pytest.mark.parametrize("name", catalog().names("game"))
def test_every_game_has_levels(name: str) -> None:
    game = make_game(name)
    bots = [level_bot(game, level) for level in LEVELS]
    assert {bot.removeprefix("bot:") for bot in bots} <= set(bot_names(name))
    assert default_bot(game) in bots


def test_the_easy_bot_is_the_fair_one_with_random_moves() -> None:
    """It loses more points of Hanabi than the fair bot does, and far fewer than random moves."""
    game = make_game("hanabi", players=2)

    def points(bot: str) -> float:
        specs = [bot, level_bot(game, "fair")]
        played = (asyncio.run(play(Match(game, specs, seed=seed))) for seed in range(8))
        return sum(one.outcome.returns[0] for one in played) / 8

    random_ones, easy, fair = map(points, ("bot:random", "bot:easy", level_bot(game, "fair")))
    assert random_ones + 2 < easy < fair - 4


def seat(game: str, **options: int | str) -> Seat:
    return Seat(make_game(game, **options), 0, random.Random(0))


def test_the_equilibrium_of_kuhn_poker_is_exact() -> None:
    made = seat("kuhn_poker")
    strong, fair = KuhnEquilibrium(made).probabilities, Honest(made).probabilities
    assert exploitability(made.game, strong) == pytest.approx(0)
    assert expected_returns(made.game, [strong, strong])[0] == pytest.approx(-1 / 18)
    assert exploitability(made.game, fair) > 0.05


def test_the_perfect_bot_of_tictactoe_never_loses() -> None:
    """Against every sequence of marks of the other player."""
    made = seat("tictactoe")
    bot = Perfect(made)
    results = set[float]()

    def walk(state: State, me: int) -> None:
        if not state.to_act:
            results.add(state.returns()[me])
            return
        player = state.to_act[0]
        legal = state.legal_actions(player)
        for action in bot.probabilities(state.observe(player)) if player == me else legal:
            after = state.clone()
            after.apply(player, action)
            walk(after, me)

    for me in (0, 1):
        walk(made.game.initial_state(), me)
    assert min(results) == 0 and max(results) == 1


def test_the_fair_bot_of_tictactoe_blocks() -> None:
    made = seat("tictactoe")
    state = made.game.initial_state()
    for player, text in ((0, "mark 1 1"), (1, "mark 2 2"), (0, "mark 1 2")):
        state.apply(player, state.observe(player).parse(text))
    assert [str(each) for each in Blocking(made).probabilities(state.observe(1))] == ["mark 1 3"]
