"""Pairs of worlds that one seat cannot tell apart, for tests of what a seat is sent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from random_games import random_steps

from arena.core.action import Step
from arena.core.game import Game
from arena.core.observation import Observation


def decisions(game: Game, steps: Sequence[Step], seat: int) -> list[Observation]:
    """Return what the seat observed at each of its decisions with a choice."""
    state, seen = game.initial_state(), list[Observation]()
    for step in steps:
        if step.player == seat and not state.observe(seat).legal_actions.is_forced:
            seen.append(state.observe(seat))
        state.apply(step.player, step.action)
    return [*seen, state.observe(seat)] if seat in state.to_act else seen


def world_pairs(
    game: Game, seat: int, games: int
) -> Iterator[tuple[list[Observation], list[Observation]]]:
    """Yield the decisions of a seat in a played world and in another one that fits what it saw."""
    rng = random.Random(5)
    for _ in range(games):
        steps = random_steps(game, rng)
        # Up to the last decision: the end of a game may show everything.
        last = max((n for n, step in enumerate(steps) if step.player == seat), default=0)
        other = game.analysis.resample(steps[:last], seat, rng)
        assert other is not None
        yield decisions(game, steps[:last], seat), decisions(game, other, seat)
