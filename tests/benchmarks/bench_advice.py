"""Advice to a person who follows it in every decision, on 100 deals of each game with a bot.

Beside it the fair bot plays the same seats of the same deals, among fair bots. The test
fails if advice is worse.
"""

from __future__ import annotations

import asyncio

import pytest

from arena import Decision, Game, Observation, make_game
from arena.agents.seating import level_bot
from arena.episodes.match import Match, play
from arena.evaluation.statistics import clustered_mean
from arena.plugins.catalog import catalog
from replays.web.play.advice import gives_advice, strong_move

DEALS = 100


class Follower:
    """Person who asks for advice at each decision and takes it."""

    def __init__(self, game: Game, spec: str) -> None:
        self._game, self._spec = game, spec

    async def act(self, observation: Observation) -> Decision:
        return Decision(strong_move(self._game, self._spec, observation))


def own_return(game: Game, seed: int, follows: bool) -> float:
    """Return the return of the seat that is in turn for a deal, of a follower or a fair bot."""
    own = seed % game.num_players
    match = Match(game, [level_bot(game, "fair")] * game.num_players, seed)
    given = {own: Follower(game, level_bot(game, "strong"))} if follows else None
    return asyncio.run(play(match, match.seat(given=given))).outcome.returns[own]


@pytest.mark.parametrize("name", catalog().names("game"))
def test_following_each_hint_is_no_worse_than_the_fair_bot(name: str) -> None:
    game = make_game(name)
    if not gives_advice(game):
        pytest.skip("no bot that advises")
    gains = [own_return(game, seed, True) - own_return(game, seed, False) for seed in range(DEALS)]
    found = clustered_mean(gains, range(DEALS))
    print(f"\n{name}: {found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]")
    assert found.high > 0 or not any(gains)
