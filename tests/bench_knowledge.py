"""What exact knowledge costs: at every suggestion of real games, a whole posterior from scratch."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import numpy as np
import pytest
from test_cluedo_knowledge import random_game

from arena.core.action import CHANCE
from arena.episodes.match import Match
from arena.episodes.runner import play
from games.cluedo.game import Cluedo
from games.cluedo.inference.constraints import Constraints
from games.cluedo.inference.counting import DealCount
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import Suggest

GAMES = 12


def positions(players: int) -> list[Constraints]:
    """What the player in turn knows, at each suggestion of games between detectives."""
    game, found = Cluedo(players=players), list[Constraints]()
    for seed in range(GAMES):
        agents = Match(game, ["bot:detective"] * players, seed).seat()
        episode = asyncio.run(play(Match(game, (), seed), agents))
        state = game.initial_state()
        for ply in episode.plies:
            if ply.player != CHANCE and isinstance(ply.decision.action, Suggest):
                knowledge = CluedoKnowledge.after(game, ply.player, state.log.witnessed[ply.player])
                found.append(knowledge.constraints.copy())
            state.apply(ply.player, ply.decision.action)
    return found


@pytest.mark.parametrize("players", [2, 3, 4, 5, 6])
def test_posterior(benchmark: Any, capsys: pytest.CaptureFixture[str], players: int) -> None:
    problems = positions(players)

    def solve_all() -> list[float]:
        times = []
        for problem in problems:
            started = time.perf_counter()
            DealCount(problem).marginals()
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


@pytest.mark.parametrize("players", [3, 4, 5, 6])
def test_calibration(capsys: pytest.CaptureFixture[str], players: int) -> None:
    """Of the cards that are in the envelope with probability p, a share p is: on full decks."""
    game, predicted, happened = Cluedo(players=players), list[float](), list[bool]()
    for seed in range(1000):
        rng = random.Random(seed)
        state = random_game(game, rng, moves=rng.randrange(3, 40), accuse=0.0)
        player = rng.randrange(players)
        knowledge = CluedoKnowledge.after(game, player, state.log.witnessed[player])
        assert state.envelope is not None
        column = knowledge.marginals()[:, knowledge.envelope]
        for card, probability in zip(game.deck.cards, column, strict=True):
            if 0 < probability < 1:
                predicted.append(probability)
                happened.append(card in state.envelope)
    p, y = np.array(predicted), np.array(happened, dtype=float)
    edges = np.quantile(p, np.linspace(0, 1, 9))
    bins = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, 7)
    rows = [(p[bins == b].mean(), y[bins == b].mean()) for b in range(8) if (bins == b).any()]
    with capsys.disabled():
        print(f"\ncalibration, {players} players, {len(p)} predictions in 1000 positions:", end="")
        print("".join(f"  {said:.3f}:{came:.3f}" for said, came in rows), end="")
    # Predictions of one position depend on each other, so the bound is generous.
    assert all(abs(said - came) < 0.03 for said, came in rows)
