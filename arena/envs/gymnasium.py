"""Gymnasium environment of one seat of any game; agents named by SPEC play the other seats.

Importing this module registers ids for the bundled games. Gymnasium imports a module that an id
names:

    env = gymnasium.make("arena.envs.gymnasium:arena/Cluedo-v0", players=4, opponents="bot:oracle")

A game of your own gets an id in the same way, with your values:

    gymnasium.register("mine/Hex-v0", "arena.envs.gymnasium:SingleAgentEnv", kwargs={"game": "hex"})

For libraries that expect one array, `FlatActionMaskEnv` joins the arrays of a game to one vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray
from pydantic import JsonValue

from arena.agents.agent import act_now
from arena.agents.seating import default_opponent
from arena.core.action import Speech
from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game
from arena.envs.multi_agent import (
    ArrayObservation,
    MultiAgentEnv,
    environment_seed,
    without_actions,
)
from arena.episodes.match import Match
from arena.plugins.catalog import make_game

IDS = {
    f"arena/{class_name}-v0": name
    for class_name, name in (
        ("Cluedo", "cluedo"),
        ("TicTacToe", "tictactoe"),
        ("KuhnPoker", "kuhn_poker"),
        ("LeducPoker", "leduc_poker"),
        ("Goofspiel", "goofspiel"),
    )
}
"""Gymnasium's ids of the bundled games that have arrays for networks."""


class SingleAgentEnv(gymnasium.Env[ArrayObservation, int]):
    """One seat of a game; the same seed gives the same game as `arena.play`.

    Observations and actions are those of `MultiAgentEnv` for that seat. The reward is what the
    seat has earned since its last move. Three conventions:

    - An illegal action forfeits: the reward is -1, the episode has terminated, and
      `info["illegal_action"]` gives the reason. So a sampler that ignores the mask raises no error.
    - If the opponents end the game before the learner's first move, `reset` returns the final
      observation, whose mask is all 0, and the first `step` ends the episode for any action.
    - A `reset` without a seed draws one from `np_random`, which the last given seed has set.

    `info` also has the `action_mask`, and the `observation` that renders text on request:
    `info["observation"].text(level, since)`.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it.

    def __init__(
        self,
        game: str | Game,
        player: int = 0,
        opponents: str | Sequence[str] | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        **options: JsonValue,
    ) -> None:
        """Create the environment of one seat.

        Args:
            game: A game, or the name of one.
            player: The learner's seat, from 0.
            opponents: One SPEC for all other seats, or one for each of them in seat order. By
                default the bot that players of the game are measured against, which is fast: in
                Cluedo `bot:novice`. The `default_bot` of `arena play` may be slower.
            max_turns: Turns after which a game is truncated; by default the game's own limit.
            render_mode: "ansi" or None.
            options: Options of the game, if it is given by name.

        Raises:
            UsageError: An argument does not fit the game.
        """
        game = make_game(game, **options)
        self.env = MultiAgentEnv(game, max_turns)
        if player not in self.env.possible_agents:
            raise UsageError(f"player={player}: the seats go from 0 to {game.num_players - 1}")
        self.player = player
        self.specs = _seat_specs(
            game, player, default_opponent(game) if opponents is None else opponents
        )
        Match(game, self.specs).seat()  # Raises UsageError now for a SPEC that names no agent.
        self.render_mode = render_mode
        self.observation_space = self.env.observation_space(player)  # type: ignore[assignment]
        self.action_space = self.env.action_space(player)  # type: ignore[assignment]
        self._playing = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[ArrayObservation, dict[str, Any]]:
        """Start a game and play it up to the learner's first move. `options` is not used.

        Raises UsageError for a seed that is not an integer of 64 bits.
        """
        seed = environment_seed(seed)
        # Gymnasium's generators take no negative numbers: shift those by 2**64.
        super().reset(seed=None if seed is None else seed % 2**64)
        seed = int(self.np_random.integers(2**31)) if seed is None else seed
        # The same streams as in `arena.play`: opponents of a seed play alike.
        self._agents = Match(self.env.game, self.specs, seed).seat()
        self.env.start(seed)
        self._play_opponents()
        self._playing = True
        return self._arrays(), self._info()

    def step(
        self, action: SupportsIndex
    ) -> tuple[ArrayObservation, float, bool, bool, dict[str, Any]]:
        """Apply the learner's action, then those of the opponents up to its next move.

        Raises UsageError before the first `reset` and after the end.
        """
        if not self._playing:
            raise UsageError("there is no game in progress: call reset()")
        # No agents: the opponents ended the game within `reset`, and this step only reports it.
        if self.env.agents:
            try:
                # Checked before the opponents choose, so that a forfeit draws nothing from their
                # streams.
                self.env.action(self.player, action)
            except IllegalAction as error:
                return self._forfeit(str(error))
            self.env.move({**self._choose(), self.player: action})
            self._play_opponents()
        terminated, truncated = self.env.terminated, self.env.truncated
        self._playing = not (terminated or truncated)
        reward = self.env.pay([self.player])[self.player]
        return self._arrays(), reward, terminated, truncated, self._info()

    def render(self) -> str | None:
        """Return the learner's observation as text if `render_mode` is "ansi"."""
        return self._observation.text() if self.render_mode == "ansi" else None

    def _choose(self) -> dict[int, int | Speech]:
        """Return the action numbers of the opponents who must act, or what they say."""
        index, chosen = self.env.game.actions.index, dict[int, int | Speech]()
        for player, observation in self.env.seen.items():
            if player != self.player:
                action = act_now(self._agents[player], observation).action
                chosen[player] = action if isinstance(action, Speech) else index[action]
        return chosen

    def _play_opponents(self) -> None:
        """Play up to the learner's next observation; the opponents read no arrays."""
        # It sees each position in which it must act, and the end; so the loop ends.
        while self.player not in self.env.seen:
            self.env.move(self._choose())
        self._observation = self.env.seen[self.player]

    def _forfeit(self, reason: str) -> tuple[ArrayObservation, float, bool, bool, dict[str, Any]]:
        self._playing = False
        self._observation = without_actions(self._observation)
        return self._arrays(), -1.0, True, False, {**self._info(), "illegal_action": reason}

    def _arrays(self) -> ArrayObservation:
        """Return fresh arrays, also of the mask: users of Gymnasium may write into them."""
        return {
            "observation": self._observation.arrays(),
            "action_mask": self._observation.legal_actions.mask.copy(),
        }

    def _info(self) -> dict[str, Any]:
        mask = self._observation.legal_actions.mask.copy()
        return {"observation": self._observation, "action_mask": mask}


def _seat_specs(game: Game, player: int, opponents: str | Sequence[str]) -> list[str]:
    """Return one SPEC per seat; the one of the learner's seat is a placeholder."""
    others = game.num_players - 1
    specs = [opponents] * others if isinstance(opponents, str) else list(opponents)
    if len(specs) != others:
        raise UsageError(f"opponents names {len(specs)} players; {game!r} needs {others}")
    # A name for the seat; the agent made from it is never asked.
    specs.insert(player, "bot:random")
    return specs


# Flat observations


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


for _id, _game in IDS.items():
    # By its path: the environment of an id can be made in a process that has not imported arena.
    gymnasium.register(_id, "arena.envs.gymnasium:SingleAgentEnv", kwargs={"game": _game})
