"""Positions of random games, and plies of games whose moves are given."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from arena.core.action import CHANCE, Step
from arena.core.event import Decision, Ply
from arena.core.game import Game
from arena.core.state import State


def walk(game: Game, seed: int) -> Iterator[State]:
    """Yield the positions of a random game without accusations in which a player has a choice."""
    rng = random.Random(seed)
    state = game.initial_state()
    while not state.is_terminal and state.turn < 40:
        player = state.to_act[0]
        if player == CHANCE:
            state.apply(CHANCE, state.sample_chance(rng))
            continue
        legal = state.legal_actions(player)
        if len(legal) > 1:
            yield state
        calm = [action for action in legal if not str(action).startswith("accuse")]
        state.apply(player, rng.choice(calm))


def plies(game: Game, steps: Iterable[Step]) -> Iterator[Ply]:
    """Yield the ply of each step, with the events that it causes."""
    state = game.initial_state()
    for number, step in enumerate(steps):
        before = len(state.log.events)
        state.apply(step.player, step.action)
        yield Ply(number, step.player, Decision(step.action), tuple(state.log.events[before:]))
