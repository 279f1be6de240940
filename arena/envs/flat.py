"""Observations as one vector, for libraries that expect one array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arena.core.game import Game

if TYPE_CHECKING:
    from numpy.typing import NDArray


def flatten(game: Game, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Join the arrays of an observation, in the order of `game.arrays.specs`.

    Shape (sum of all sizes,), or (1,) with the value 0 for a game without arrays, because a space
    must not be empty. The dtype is the common type of the arrays.
    """
    # The order of the specs is fixed, so an index has one meaning for all observations.
    parts = [arrays[name].ravel() for name in game.arrays.specs]
    return np.concatenate(parts or [np.zeros(1, np.int8)])


def flat_bounds(game: Game) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the lowest and the highest value of each entry of a flat observation."""
    specs = game.arrays.specs
    low = {name: np.full(spec.shape, spec.low, spec.dtype) for name, spec in specs.items()}
    high = {name: np.full(spec.shape, spec.high, spec.dtype) for name, spec in specs.items()}
    return flatten(game, low), flatten(game, high)
