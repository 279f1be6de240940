"""What exact knowledge costs: at every suggestion of real games, a whole posterior from scratch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import numpy as np
import pytest
from comparisons import Compare
from plain_count import plain_marginals

from arena.core.event import Event
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from games.cluedo.game import Cluedo
from games.cluedo.inference.constraints import Constraints
from games.cluedo.inference.counting import DealCount
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.state import CluedoState

GAMES = 12


def played(players: int) -> Iterator[tuple[Cluedo, CluedoState, Episode]]:
    """Games between detectives, each with a state of its start."""
    game = Cluedo(players=players)
    for seed in range(GAMES):
        agents = Match(game, ["bot:detective"] * players, seed).seat()
        yield game, game.initial_state(), asyncio.run(play(Match(game, (), seed), agents))


def views(players: int) -> Iterator[tuple[Cluedo, int, list[Event]]]:
    """What each seat witnessed in games between detectives."""
    for game, state, episode in played(players):
        for ply in episode.plies:
            state.apply(ply.player, ply.decision.action)
        for player in range(players):
            yield game, player, state.log.witnessed[player]


def passed_by_plain_count(constraints: Constraints) -> float:
    """Return the seconds of a count from scratch; both counts must agree."""
    started = time.thread_time()
    plain = plain_marginals(constraints)
    passed = time.thread_time() - started
    np.testing.assert_allclose(DealCount(constraints).marginals(), plain, rtol=1e-13)
    return passed


@pytest.mark.parametrize("players", [3, 6])
def test_an_update_and_the_posterior(
    capsys: pytest.CaptureFixture[str], compare: Compare, players: int
) -> None:
    """Events of whole games, seat by seat; times of those after which something new is known."""
    times, plain, quiet = list[float](), list[float](), list[float]()
    for game, player, events in views(players):
        knowledge = CluedoKnowledge(game, player)
        for event in events:
            before = knowledge.marginals()
            started = time.thread_time()
            knowledge.update(event)
            after = knowledge.marginals()
            passed = time.thread_time() - started
            if after is before:
                quiet.append(passed)
                continue
            times.append(passed)
            if len(times) % 8 == 0:  # The plain count is slow.
                plain.append(passed_by_plain_count(knowledge.constraints))
    median, tail = np.percentile(np.array(times) * 1000, [50, 99])
    slow_median, slow_tail = np.percentile(np.array(plain) * 1000, [50, 99])
    all_median, all_tail = np.percentile(np.array(times + quiet) * 1000, [50, 99])
    with capsys.disabled():
        print(
            f"\nupdate and posterior, {players} players, {len(times)} events with news: median "
            f"{median:.2f} ms, 99% {tail:.1f} ms; plain count {slow_median:.2f} and "
            f"{slow_tail:.1f} ms: {slow_median / median:.1f} and {slow_tail / tail:.1f} times; "
            f"all {len(times + quiet)} events: {all_median:.3f} and {all_tail:.1f} ms",
            end="",
        )
    what = f"event and exact posterior, Cluedo, {players} players"
    compare(f"{what}, median", "ms", median, {"a plain count": slow_median}, time=True)
    compare(f"{what}, 99 %", "ms", tail, {"a plain count": slow_tail}, time=True)
    assert tail < slow_tail
