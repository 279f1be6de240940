"""Fingerprints: everything that players can see, as bytes that are compared."""

from __future__ import annotations

from typing import get_args

from arena.core.game import State
from arena.core.observation import Observation, TextLevel


def snapshot(state: State) -> bytes:
    """Return everything visible of a state, for all players together."""
    views = [fingerprint(state.observe(player)) for player in range(state.game.num_players)]
    return public_facts(state) + repr(views).encode()


def public_facts(state: State) -> bytes:
    """Return everything visible of a state but the observations of its players."""
    return repr((state.to_act, state.turn, state.returns(), state.log.events)).encode()


def fingerprint(observation: Observation) -> bytes:
    """Return everything visible of an observation: texts, arrays, actions, order and sizes."""
    texts = [
        observation.text(level, since)
        for level in get_args(TextLevel)
        # The second text covers the news only, which is rendered by other code.
        for since in (0, observation.num_events // 2)
    ]
    arrays = {name: array.tobytes() for name, array in observation.arrays().items()}
    legal = [str(action) for action in observation.legal_actions]
    diagram = observation.game.diagram(observation.events)
    parts = (observation.events, texts, arrays, legal, diagram, observation.num_events)
    return repr(parts).encode()
