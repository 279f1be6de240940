"""The oracle beside the detective at each kind of table: the same deals in the same seats."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest

from arena.agents.agent import Agent, Seat
from arena.core.seeds import stream
from arena.episodes.executors import available_cores
from arena.episodes.match import Match, play
from games.cluedo.bots import CluedoBot, Detective, Novice, Oracle, Random
from games.cluedo.game import Cluedo

DEALS = 400
PLAYERS = 4
Bot = type[CluedoBot] | type[Random]
TABLES: dict[str, tuple[Bot, ...]] = {
    "three novices": (Novice, Novice, Novice),
    "three detectives": (Detective, Detective, Detective),
    "three random": (Random, Random, Random),
    "one of each": (Random, Novice, Detective),
}


def won(rivals: tuple[Bot, ...], tested: Bot, seed: int) -> float:
    """Return 1 if the tested bot wins this deal, else 0."""
    game, seat = Cluedo(players=PLAYERS), seed % PLAYERS
    # The same order of rivals for both tested bots.
    bots = stream(seed, "table").sample(rivals, len(rivals))
    bots.insert(seat, tested)
    agents: list[Agent] = [
        bot(Seat(game, number, stream(seed, f"bot {number}"))) for number, bot in enumerate(bots)
    ]
    return asyncio.run(play(Match(game, (), seed), agents)).outcome.returns[seat]


@pytest.mark.parametrize("table", TABLES)
def test_the_oracle_is_not_worse_than_a_detective(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def play_all() -> list[list[float]]:
        with ProcessPoolExecutor(available_cores()) as pool:
            return [
                list(pool.map(partial(won, TABLES[table], bot), range(DEALS), chunksize=10))
                for bot in (Oracle, Detective)
            ]

    oracle, detective = map(np.array, play_all())
    ahead = oracle - detective
    mean, half = ahead.mean(), 1.96 * ahead.std(ddof=1) / math.sqrt(DEALS)
    with capsys.disabled():
        print(
            f"\n{DEALS} deals, {table}: oracle {oracle.mean():.1%}, detective "
            f"{detective.mean():.1%}, difference {100 * mean:+.1f} points "
            f"[{100 * (mean - half):+.1f}, {100 * (mean + half):+.1f}]"
        )
    # Not provably worse.
    assert mean + half >= 0
