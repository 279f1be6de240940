"""A match: what it checks, what it seats, and that it plays the same game again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arena.agents.agent import Agent
from arena.cli.options import SeedOptions
from arena.core.action import Action
from arena.core.errors import UsageError
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.core.spec import draw_seed
from arena.episodes.match import Match, play
from arena.plugins.catalog import make_game

KUHN = make_game("kuhn_poker")
BOTS = ("bot:random", "bot:random")


def test_the_seed_of_the_agents_changes_the_play_and_not_the_deal() -> None:
    game = make_game("cluedo", players=3)
    episodes = [
        asyncio.run(play(Match(game, ["bot:random"] * 3, 1, max_turns=6, agents_seed=number)))
        for number in (1, 2)
    ]
    actions = [[str(ply.decision.action) for ply in episode.plies] for episode in episodes]
    assert actions[0][0] == actions[1][0] and actions[0] != actions[1]


class Repeating:
    """Plays given actions and draws nothing."""

    def __init__(self, actions: list[Action]) -> None:
        self._actions = iter(actions)

    async def act(self, observation: Observation) -> Decision:
        return Decision(next(self._actions))


def test_each_seat_draws_from_a_stream_of_its_own() -> None:
    game = make_game("goofspiel", players=3, cards=7)
    match = Match(game, ["bot:random"] * 3, 4)

    def bids(seats: list[Agent]) -> list[list[Action]]:
        plies = asyncio.run(play(match, seats)).plies
        return [[p.decision.action for p in plies if p.player == seat] for seat in range(3)]

    drawn = bids(match.seat())
    assert len({tuple(map(str, actions)) for actions in drawn}) == 3, "no two seats play alike"
    # The others' draws do not depend on how much a seat draws.
    for seat in range(3):
        seats = match.seat()
        seats[seat] = Repeating(drawn[seat])
        assert bids(seats) == drawn


@pytest.mark.parametrize("seed", [1.5, None, "7", True, 2**63, -(2**63) - 1])
def test_a_seed_of_a_wrong_type_or_size(seed: Any) -> None:
    with pytest.raises(UsageError, match=r"seed=.*give a whole number from -2\*\*63"):
        Match(KUHN, BOTS, seed)


@pytest.mark.parametrize("draw", [draw_seed, SeedOptions().first_seed])
def test_a_drawn_seed_cannot_be_tried_out(draw: Callable[[], int]) -> None:
    """All seeds of 31 bits, as they were drawn, can: an agent sees the draws of its own stream."""
    drawn = [draw() for _ in range(20)]
    assert 2**45 < max(drawn) < 2**53 and len(set(drawn)) == 20


@pytest.mark.parametrize("turns", [0, -1, 1.5, "3", True])
def test_a_limit_of_a_wrong_type_or_size(turns: Any) -> None:
    with pytest.raises(UsageError, match="max_turns="):
        Match(KUHN, BOTS, max_turns=turns)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"game": "liars_dice"}, "game='liars_dice': give a Game, for example make_game"),
        ({"text_level": "x"}, "text_level='x': choose events, notes, deductions"),
        ({"text_level": []}, "text_level="),
        ({"specs": "bot:random"}, "specs='bot:random': give a sequence of SPECs"),
        ({"specs": [None, "bot:random"]}, "specs="),
        ({"chat": "cot"}, "chat='cot': give ChatOptions"),
        ({"decision_seconds": 0}, "decision_seconds=0: give a number above 0"),
        ({"decision_seconds": "5"}, "decision_seconds='5'"),
        ({"decision_seconds": float("nan")}, "decision_seconds=nan"),
    ],
)
def test_a_field_of_a_wrong_type(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Match(**{"game": KUHN, "specs": BOTS, **fields})


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
