"""Positions of Hanabi for tests."""

from __future__ import annotations

import random
from typing import Any

from arena.core.action import CHANCE, Step
from games.hanabi.rules import Hanabi, HanabiState, PlaySlot

SMALL: dict[str, Any] = {"colours": 2, "ranks": 3, "hand_size": 2, "hint_tokens": 3}


def deal(game: Hanabi, *hands: str) -> HanabiState:
    """The position after a deal; each hand is a text such as `R1 Y2`."""
    return move(game.initial_state(), f"deal {' | '.join(hands)}")


def move(state: HanabiState, *texts: str) -> HanabiState:
    """Apply actions, given as text; the player in turn or chance takes each."""
    for text in texts:
        state.apply(state.to_act[0], state.parse(text))
    return state


def random_history(game: Hanabi, rng: random.Random, plies: int) -> tuple[HanabiState, list[Step]]:
    """Play at random, mostly without plays, which end a random game early."""
    state, steps = game.initial_state(), list[Step]()
    while not state.is_terminal and len(steps) < plies:
        player = state.to_act[0]
        if player == CHANCE:
            action = state.sample_chance(rng)
        else:
            legal = state.legal_actions(player)
            safe = [a for a in legal if not isinstance(a, PlaySlot)]
            action = rng.choice(safe if safe and rng.random() < 0.8 else legal)
        state.apply(player, action)
        steps.append(Step(player, action))
    return state, steps
