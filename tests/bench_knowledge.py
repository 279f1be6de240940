"""What exact knowledge costs: at every suggestion of real games, a whole posterior from scratch."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from arena.action import CHANCE
from arena.playing import play, seat_agents
from games.cluedo.counting import Count
from games.cluedo.events import Suggest
from games.cluedo.game import Cluedo
from games.cluedo.knowledge import CluedoKnowledge
from games.cluedo.problem import Problem

GAMES = 12


def positions(players: int) -> list[Problem]:
    """What the player in turn knows, at each suggestion of games between detectives."""
    game, found = Cluedo(players=players), list[Problem]()
    for seed in range(GAMES):
        agents = seat_agents(game, ["bot:detective"] * players, seed)
        episode = asyncio.run(play(game, agents, seed))
        state = game.initial_state()
        for ply in episode.plies:
            if ply.player != CHANCE and isinstance(ply.decision.action, Suggest):
                knowledge = CluedoKnowledge(game, ply.player)
                for event in state.log.witnessed[ply.player]:
                    knowledge.update(event)
                found.append(knowledge.problem.copy())
            state.apply(ply.player, ply.decision.action)
    return found


@pytest.mark.parametrize("players", [2, 3, 4, 5, 6])
def test_posterior(benchmark: Any, capsys: pytest.CaptureFixture[str], players: int) -> None:
    problems = positions(players)

    def solve_all() -> list[float]:
        times = []
        for problem in problems:
            started = time.perf_counter()
            Count(problem).marginals()
            times.append(time.perf_counter() - started)
        return times

    times = np.array(benchmark.pedantic(solve_all, rounds=3)) * 1000
    median, tail = np.percentile(times, [50, 99])
    with capsys.disabled():
        print(
            f"\nposterior, {players} players: median {median:.2f} ms, 99% {tail:.1f} ms, "
            f"worst {times.max():.1f} ms over {len(times)} positions",
            end="",
        )
    assert tail < 50
