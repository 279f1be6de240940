"""Checks of observations: their arrays, and that they are snapshots."""

from __future__ import annotations

from arena.core.game import Game
from arena.core.observation import Observation
from arena.testing.positions import fingerprint, random_positions

KEPT = 20
"""Observations of a game that are compared again at its end."""


def check_observations(game: Game, seed: int) -> None:
    """Check shapes, dtypes and bounds of arrays, and that later moves change no observation."""
    kept: list[tuple[Observation, bytes]] = []
    for position in random_positions(game, seed):
        for player in range(game.num_players):
            observation = position.state.observe(player)
            _check_arrays(game, observation, seed)
            # The first observations see the most later moves.
            if len(kept) < KEPT:
                kept.append((observation, fingerprint(observation)))
    for observation, before in kept:
        assert fingerprint(observation) == before, f"seed {seed}: an old observation has changed"


def _check_arrays(game: Game, observation: Observation, seed: int) -> None:
    arrays = observation.arrays()
    assert list(arrays) == list(game.arrays.specs), f"arrays are {list(arrays)}"
    for name, spec in game.arrays.specs.items():
        array = arrays[name]
        assert array.shape == spec.shape, f"array {name} has shape {array.shape}"
        assert str(array.dtype) == spec.dtype, f"array {name} has dtype {array.dtype}"
        # A comparison with NaN is false, so NaN counts as out of bounds.
        inside = (array >= spec.low) & (array <= spec.high)
        assert inside.all(), f"seed {seed}: array {name} leaves its bounds"
