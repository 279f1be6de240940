"""The clock tells no player whether another one had a choice."""

from __future__ import annotations

import asyncio
import statistics
import time
from itertools import pairwise
from typing import Any

import pytest

from arena.agents.agent import RandomBot, Seat
from arena.agents.seating import make_agent
from arena.core.event import Decision, Ply
from arena.core.game import State
from arena.core.observation import Observation
from arena.core.spec import stream
from arena.episodes.match import Match, play
from arena.episodes.release import ReleaseTimes
from arena.plugins.catalog import make_game
from games.tictactoe.game import TicTacToe

BOT = RandomBot(Seat(TicTacToe(), 0, stream(0, "bot")))


class Person(RandomBot):
    """A random bot that counts as decided from outside."""

    decision_seconds = None


class Model:
    async def act(self, observation: Observation) -> Decision:
        return Decision(observation.legal_actions[0])


class Clock:
    """Watcher that takes the time of each ply."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, Ply]] = []

    def ply(self, ply: Ply, state: State) -> None:
        self.seen.append((time.perf_counter(), ply))

    def begin(self, *unused: Any) -> None: ...

    end = close = begin

    def play(self, spec: str, kind: type[RandomBot]) -> list[float]:
        """Return the seconds before each phase of a game of Avalon with one seat of this kind."""
        match = Match(make_game("avalon", talk=0), (spec,) * 5, seed=3)
        agents = [
            kind(match.seat_of(0)),
            *(make_agent(spec, match.seat_of(s)) for s in range(1, 5)),
        ]
        asyncio.run(play(match, agents, watchers=[watch := Clock()]))
        times = [seen for seen, ply in watch.seen]
        return [later - earlier for earlier, later in pairwise(times)]


def test_bots_take_the_same_time_with_and_without_a_choice() -> None:
    free, forced = (ReleaseTimes([BOT] * 3, 1.0, seed=7) for _ in range(2))
    schedule = [free.seconds({0: 0.001, 1: 0.002}) for _ in range(50)]
    assert schedule == [forced.seconds({0: None, 1: 0.002}) for _ in range(50)]
    assert min(schedule) >= 0.5 and len(set(schedule)) == 50
    # The maximum of two waiting times has the mean 1.25 m: 0.5 + 0.5 · (1 + 1/2).
    assert 1.0 < statistics.mean(schedule) < 1.5


def test_a_forced_move_of_a_model_takes_the_time_of_its_free_ones() -> None:
    times = ReleaseTimes([Model(), Model(), BOT], 0.1, seed=7)
    rng = stream(1, "model")
    actual = [rng.lognormvariate(1, 0.5) for _ in range(400)]
    taken = [(times.seconds({0: seconds}), times.seconds({0: None})) for seconds in actual]
    free, forced = ([statistics.quantiles(each, n=4)] for each in zip(*taken, strict=True))
    for mine, theirs in zip(free[0], forced[0], strict=True):
        assert theirs == pytest.approx(mine, rel=0.2)
    # A seat that was never asked takes the time of the other model, a bot its own.
    assert times.seconds({1: None}) > 0.5 > times.seconds({2: None})
    # No time is repeated exactly.
    assert not {second for _, second in taken} & {first for first, _ in taken}


def test_games_with_people_have_release_times_and_the_others_stay_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARENA_AGENT", '{"drawn_seconds": 0.01}')
    # Votes and mission cards of a phase appear together: zero within it, a wait before it.
    waits = Clock().play("bot:random", Person)
    phases = [seconds for seconds in waits if seconds > 0.001]
    assert len(phases) > 5 and min(phases) >= 0.004
    assert sum(waits) > 5 * sum(Clock().play("bot:random", RandomBot))
    monkeypatch.setenv("ARENA_AGENT", '{"drawn_seconds": 0}')
    assert sum(phases) > sum(Clock().play("bot:random", Person))
