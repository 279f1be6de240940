"""Positions of Hanabi for tests."""

from __future__ import annotations

import random
from typing import Any

from random_games import random_steps

from arena.core.action import Action, Step
from arena.core.action_set import ActionSet
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

    def choose(rng: random.Random, legal: ActionSet) -> Action:
        safe = [action for action in legal if not isinstance(action, PlaySlot)]
        return rng.choice(safe if safe and rng.random() < 0.8 else legal)

    steps = random_steps(game, rng, plies, choose)
    return game.initial_state().apply_all(steps), steps
