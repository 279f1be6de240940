"""One seat of any game as a Gymnasium environment; agents named by SPEC play the others.

Importing arena registers ids for the bundled games (`arena.envs.registration`):

    import arena, gymnasium
    env = gymnasium.make("arena/Cluedo-v0", players=4, opponents="bot:oracle")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import gymnasium

from arena.agents.agent import act_now
from arena.agents.seating import seat_agents
from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game
from arena.core.json import Json
from arena.core.observation import Observation
from arena.envs.multi_agent import ArrayObservation, Info, MultiAgentEnv, StepResult
from arena.plugins.loader import make_game


class SingleAgentEnv(gymnasium.Env[ArrayObservation, int]):
    """The game as one seat lives it; the same seed gives the same game as `arena.play`.

    Observations and actions are those of `MultiAgentEnv` for that seat. The reward is what the
    seat has earned since its last move. Three conventions:

    - An illegal action forfeits: the reward is -1, the episode has terminated, and
      `info["illegal_action"]` says why. So a sampler that ignores the mask raises nothing.
    - If the others end the game before the learner's first move, `reset` returns the final
      observation, whose mask is all 0, and the first `step` ends the episode, whatever its action.
    - A `reset` without a seed draws one from `np_random`, which the last given seed has set.

    `info` has the `action_mask` once more, and the `observation` that renders text when asked:
    `info["observation"].text(level, since)`.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it.

    def __init__(
        self,
        game: str | Game,
        player: int = 0,
        opponents: str | Sequence[str] = "bot:random",
        max_turns: int | None = None,
        render_mode: str | None = None,
        **options: Json,
    ) -> None:
        """`opponents`: one SPEC for all other seats, or one for each of them in seat order.

        `options` are the game's own. Raises UsageError for what does not fit the game.
        """
        if isinstance(game, str):
            game = make_game(game, **options)
        elif options:
            raise UsageError(f"{game!r} has its options already; leave out {', '.join(options)}")
        self.env = MultiAgentEnv(game, max_turns)
        if player not in self.env.possible_agents:
            raise UsageError(f"player={player}: the seats go from 0 to {game.num_players - 1}")
        self.player = player
        self.specs = _specs(game, player, opponents)
        seat_agents(game, self.specs, seed=0)  # A SPEC that names nobody should fail here.
        self.render_mode = render_mode
        self.observation_space = self.env.observation_space(player)  # type: ignore[assignment]
        self.action_space = self.env.action_space(player)  # type: ignore[assignment]
        self._playing = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Json] | None = None
    ) -> tuple[ArrayObservation, dict[str, Any]]:
        """Begin a game and play it up to the learner's first move. `options` is not used."""
        super().reset(seed=seed)
        seed = int(self.np_random.integers(2**31)) if seed is None else seed
        self._agents = seat_agents(self.env.game, self.specs, seed)
        going: dict[int | str, bool] = {"__all__": False}
        observations, infos = self.env.reset(seed=seed)
        self._last = self._until_my_move((observations, {}, going, going, infos))
        self._playing = True
        return self._arrays(), self._info()

    def step(
        self, action: SupportsIndex
    ) -> tuple[ArrayObservation, float, bool, bool, dict[str, Any]]:
        """Carry out the learner's action, then those of the others up to its next move.

        Raises UsageError before the first `reset` and after the end.
        """
        if not self._playing:
            raise UsageError("no game is on: call reset()")
        if self.env.agents:
            try:
                self.env.action(self.player, action)
            except IllegalAction as error:
                return self._forfeit(str(error))
            chosen = self._choose(self._last[4])
            self._last = self._until_my_move(self.env.step({**chosen, self.player: action}))
        _, rewards, terminations, truncations, _ = self._last
        terminated, truncated = terminations["__all__"], truncations["__all__"]
        self._playing = not (terminated or truncated)
        return self._arrays(), rewards[self.player], terminated, truncated, self._info()

    def render(self) -> str | None:
        """The learner's observation in words, if `render_mode` is "ansi"."""
        return self._observation.text() if self.render_mode == "ansi" else None

    @property
    def _observation(self) -> Observation:
        return self._last[4][self.player]["observation"]

    def _choose(self, infos: Mapping[int, Info]) -> dict[int, int]:
        """The others' action numbers, of those who must act."""
        index = self.env.game.actions.index
        return {
            player: index[act_now(self._agents[player], info["observation"]).action]
            for player, info in infos.items()
            if player != self.player
        }

    def _until_my_move(self, step: StepResult) -> StepResult:
        while self.player not in step[4]:
            step = self.env.step(self._choose(step[4]))
        return step

    def _forfeit(self, why: str) -> tuple[ArrayObservation, float, bool, bool, dict[str, Any]]:
        self._playing = False
        self._observation.legal_actions = self.env.game.no_actions
        return self._arrays(), -1.0, True, False, {**self._info(), "illegal_action": why}

    def _arrays(self) -> ArrayObservation:
        """Fresh ones, the mask too: Gymnasium's users may write into what they are given."""
        observation = self._observation
        return {
            "observation": observation.arrays(),
            "action_mask": observation.legal_actions.mask.copy(),
        }

    def _info(self) -> dict[str, Any]:
        observation = self._observation
        return {"observation": observation, "action_mask": observation.legal_actions.mask.copy()}


def _specs(game: Game, player: int, opponents: str | Sequence[str]) -> list[str]:
    """A SPEC per seat; the learner's own is never asked."""
    others = game.num_players - 1
    specs = [opponents] * others if isinstance(opponents, str) else list(opponents)
    if len(specs) != others:
        raise UsageError(f"opponents names {len(specs)} players; {game!r} needs {others}")
    specs.insert(player, "bot:random")
    return specs
