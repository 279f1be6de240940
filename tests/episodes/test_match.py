"""A match: what it checks, what it seats, and that it plays the same game again."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from arena.core.errors import UsageError
from arena.episodes.match import Match
from arena.episodes.runner import play
from arena.plugins.loader import make_game

KUHN = make_game("kuhn_poker")
BOTS = ("bot:random", "bot:random")


def test_equal_matches_give_equal_episodes() -> None:
    match = Match(KUHN, BOTS, seed=5)
    again = pickle.loads(pickle.dumps(match))
    first, second = (asyncio.run(play(one)) for one in (match, again))
    assert first.outcome == second.outcome
    assert [ply.decision for ply in first.plies] == [ply.decision for ply in second.plies]
    assert first.header.players == BOTS and first.header.seed == 5


def test_the_seed_of_the_agents_changes_the_play_and_not_the_deal() -> None:
    game = make_game("cluedo", players=3)
    episodes = [
        asyncio.run(play(Match(game, ["bot:random"] * 3, 1, max_turns=6, agents_seed=number)))
        for number in (1, 2)
    ]
    actions = [[str(ply.decision.action) for ply in episode.plies] for episode in episodes]
    assert actions[0][0] == actions[1][0] and actions[0] != actions[1]


@pytest.mark.parametrize("seed", [1.5, None, "7", True, 2**63, -(2**63) - 1])
def test_a_seed_of_a_wrong_type_or_size(seed: Any) -> None:
    with pytest.raises(UsageError, match=r"seed=.*give a whole number from -2\*\*63"):
        Match(KUHN, BOTS, seed)


@pytest.mark.parametrize("turns", [0, -1, 1.5, "3", True])
def test_a_limit_of_a_wrong_type_or_size(turns: Any) -> None:
    with pytest.raises(UsageError, match="max_turns="):
        Match(KUHN, BOTS, max_turns=turns)


def test_a_wrong_number_of_agents() -> None:
    with pytest.raises(UsageError, match="needs 2 agents, not 1"):
        asyncio.run(play(Match(KUHN, ["bot:random"])))


def test_agents_without_specs_are_recorded_under_their_class_names() -> None:
    agents = Match(KUHN, BOTS).seat()
    assert asyncio.run(play(Match(KUHN), agents)).header.players == ("RandomBot", "RandomBot")


def test_a_password_is_not_recorded() -> None:
    names = ["http://user:secret@localhost/v1#m", "bot:random"]
    episode = asyncio.run(play(Match(KUHN, names), Match(KUHN, BOTS).seat()))
    assert episode.header.players[0] == "http://localhost/v1#m"
