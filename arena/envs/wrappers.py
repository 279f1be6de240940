"""Flat observations: the arrays of a game as one vector, for libraries that expect one array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from arena.core.errors import UsageError
from arena.core.game import Game
from arena.envs.gymnasium import SingleAgentEnv
from arena.envs.multi_agent import ArrayObservation

FlatArray = NDArray[np.float32]


class FlatActionMaskEnv(
    gymnasium.Wrapper[FlatArray, int, ArrayObservation, int], RecordConstructorArgs
):
    """A `SingleAgentEnv` with flat observations and `action_masks()`.

    This is the interface of MaskablePPO in Stable-Baselines3 (sb3-contrib):

        env = FlatActionMaskEnv(gymnasium.make("arena/Cluedo-v0"))
        model = MaskablePPO("MlpPolicy", env)

    The observation is one float32 vector: the arrays of `game.arrays.specs`, joined in that order.
    Rewards, ends of episodes and infos are those of the wrapped environment.
    """

    def __init__(self, env: gymnasium.Env[ArrayObservation, int]) -> None:
        """Wrap `env`. Raises UsageError if there is no `SingleAgentEnv` inside."""
        RecordConstructorArgs.__init__(self)  # So that Gymnasium can recreate the wrapper.
        super().__init__(env)  # type: ignore[arg-type] # Gymnasium annotates its outer type.
        self._inner = env
        inner = env.unwrapped
        if not isinstance(inner, SingleAgentEnv):
            raise UsageError(f"{env} is not an environment of arena, such as arena/Cluedo-v0")
        self._game = inner.env.game
        # Networks expect floats, while the game's arrays are small integers.
        low, high = (bound.astype(np.float32) for bound in flat_bounds(self._game))
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self._mask = np.zeros(len(self._game.actions), bool)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[FlatArray, dict[str, Any]]:
        """Start a game; see `SingleAgentEnv.reset`."""
        observation, info = self._inner.reset(seed=seed, options=dict(options) if options else None)
        return self._flatten(observation), info

    def step(self, action: int) -> tuple[FlatArray, SupportsFloat, bool, bool, dict[str, Any]]:
        """Apply an action number; see `SingleAgentEnv.step`."""
        observation, reward, terminated, truncated, info = self._inner.step(action)
        return self._flatten(observation), reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legality of each action now: shape (number of actions,), a copy.

        All entries are False before the first `reset` and after the end.
        """
        return self._mask.copy()

    def _flatten(self, observation: ArrayObservation) -> FlatArray:
        # MaskablePPO asks for the mask after the step, without passing the observation.
        self._mask = observation["action_mask"].astype(bool)
        return flatten(self._game, observation["observation"]).astype(np.float32)


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
