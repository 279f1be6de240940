"""Multi-agent environment of any game, with the signatures of Gymnasium."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex, TypedDict

import numpy as np
from gymnasium import spaces

from arena.core.action import CHANCE, Action, Speech
from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game, State
from arena.core.observation import Observation
from arena.core.spec import check_seed, stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ArrayObservation(TypedDict):
    """One observation as arrays; a member of `observation_space`."""

    observation: dict[str, NDArray[Any]]
    """Arrays with the shapes of `game.arrays.specs`, fresh copies. Empty for a game without arrays:
    its players read the text of `PlayerInfo`."""
    action_mask: NDArray[np.int8]
    """Shape (number of actions,): 1 where legal. Shared and read-only."""


class PlayerInfo(TypedDict):
    """The `info` of one player."""

    observation: Observation
    """Renders text on request."""


StepResult = tuple[
    dict[int, ArrayObservation],
    dict[int, float],
    dict[int | str, bool],
    dict[int | str, bool],
    dict[int, PlayerInfo],
]
"""Observations, rewards, terminations, truncations, infos."""


def without_actions(observation: Observation) -> Observation:
    """Return the observation of a player that may not act any more."""
    if not observation.legal_actions:
        return observation
    return replace(observation, legal_actions=observation.game.actions.subset(()))


def environment_seed(seed: object) -> int | None:
    """Return the seed of a `reset`; None stays None. Integers of numpy are accepted.

    Raises UsageError for any other type, or a number that does not fit 64 bits.
    """
    if seed is None:
        return None
    return check_seed(int(seed) if isinstance(seed, np.integer) else seed)


def masked_space(game: Game, observation: spaces.Space[Any]) -> spaces.Dict:
    """Return the space of observations of this space, together with their action masks."""
    mask = spaces.Box(0, 1, (len(game.actions),), np.int8)
    return spaces.Dict({"observation": observation, "action_mask": mask})


class MultiAgentEnv:
    """Gymnasium's `reset` and `step` with dictionaries keyed by the players who must act.

    This is RLlib's convention: one key when players take turns, several keys when they move
    simultaneously, and all players at the end. Actions are numbers in `game.actions`. Chance is
    drawn inside, as in `arena.play`: the same seed gives the same deal.

        env = MultiAgentEnv(make_game("cluedo", players=3))
        observations, infos = env.reset(seed=7)
        while env.agents:
            actions = {player: choose(seen) for player, seen in observations.items()}
            observations, rewards, terminations, truncations, infos = env.step(actions)

    Unlike in `arena.play`, a player with just one legal action must act too.

    Text is not part of the observations: a space needs a fixed shape, and rendering text takes
    longer than the move. `infos[player]["observation"]` is the `Observation`, which renders text on
    request: `.text(level, since)`.
    """

    def __init__(self, game: Game, max_turns: int | None = None) -> None:
        """Create the environment of `game`.

        Args:
            game: The rules.
            max_turns: Turns after which a game is truncated; by default the game's own limit.

        Raises:
            UsageError: `max_turns` is not a whole number from 1.
        """
        self.game = game
        self.max_turns = game.turn_limit(max_turns)
        self.possible_agents = list(range(game.num_players))
        self.agents: list[int] = []
        """Players in the game: all of them until it ends, then none."""
        self.seed: int | None = None
        """The seed of this game. Do not show it to a player: it reveals the deal."""
        # Infinity for no limit, so that one comparison with the turn covers both cases.
        self._limit = math.inf if self.max_turns is None else self.max_turns
        # Seeded by the operating system until a `reset` gives a seed.
        self._seeds = random.Random()
        self._series: int | None = None
        """The seed of a series that has not started; None once it has."""
        # Seeded by each game; one generator, because to make one takes longer than to seed it.
        self._chance = random.Random()
        self._state: State | None = None
        self.seen: dict[int, Observation] = {}
        """The observations of the players who must act; at the end, of all players."""
        self.terminated = self.truncated = False

    @cached_property
    def observation_spaces(self) -> dict[int, spaces.Dict]:
        def space() -> spaces.Dict:
            boxes: dict[str, spaces.Space[Any]] = {
                name: spaces.Box(spec.low, spec.high, spec.shape, np.dtype(spec.dtype).type)
                for name, spec in self.game.arrays.specs.items()
            }
            return masked_space(self.game, spaces.Dict(boxes))

        # A space of its own for each player: users seed a space.
        return {player: space() for player in self.possible_agents}

    @cached_property
    def action_spaces(self) -> dict[int, spaces.Discrete]:
        return {player: spaces.Discrete(len(self.game.actions)) for player in self.possible_agents}

    def observation_space(self, player: int) -> spaces.Dict:
        """`{"observation": one Box per array of game.arrays.specs, "action_mask": Box}`."""
        return self.observation_spaces[player]

    def action_space(self, player: int) -> spaces.Discrete:
        """Action numbers: indices of `game.actions`."""
        return self.action_spaces[player]

    @property
    def state(self) -> State:
        """The position, with all hidden information.

        Raises UsageError before the first `reset`.
        """
        if self._state is None:
            raise UsageError("there is no game yet: call reset()")
        return self._state

    def observe(self, player: int) -> Observation:
        """Return what `player` may know now, even if it is not to act."""
        observation = self.state.observe(player)
        return without_actions(observation) if self.truncated else observation

    def action(self, player: int, number: SupportsIndex | Speech) -> Action:
        """Return the action with this number. Speech has none: it is given as the action.

        Raises IllegalAction if there is no such action, or if `player` may not play it now.
        """
        if isinstance(number, Speech):
            return self.state.legal_actions(player).check(number)
        # Looked up by the mask: one index instead of a search in the set.
        seen = self.seen.get(player)
        legal = self.state.legal_actions(player) if seen is None else seen.legal_actions
        mask = legal.mask
        try:
            index = operator.index(number)  # Integers of numpy too, but no float and no text.
        except TypeError:
            raise IllegalAction(f"player {player}: {number!r} is not an action number") from None
        if not 0 <= index < len(mask):
            raise IllegalAction(
                f"player {player}: there is no action {index}; they go from 0 to {len(mask) - 1}"
            )
        action = self.game.actions.actions[index]
        if not mask[index]:
            raise IllegalAction(f"player {player}: action {index}, '{action}', is not allowed now")
        return action

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[dict[int, ArrayObservation], dict[int, PlayerInfo]]:
        """Start a game; return `(observations, infos)` of the players who must act.

        Without a seed, the next one is drawn from a series that the last given seed determines; if
        none was given, the series is random. `options` is part of Gymnasium's signature and not
        used.

        Raises:
            UsageError: The seed is not an integer of 64 bits.
        """
        self.start(seed)
        return self._arrays()

    def start(self, seed: int | None = None) -> None:
        """Start a game as `reset` does, without arrays; see `seen`. Raises its errors."""
        checked = environment_seed(seed)
        if checked is not None:
            self._series = checked
        elif self._series is not None:
            # A generator takes long to seed, so the series starts only when it is needed.
            self._seeds, self._series = stream(self._series, "seeds"), None
        self.seed = self._seeds.getrandbits(31) if checked is None else checked
        self._chance = stream(self.seed, "chance", self._chance)
        # What each player has been paid so far, see `pay`.
        self._paid = [0.0] * self.game.num_players
        self._state = self.game.initial_state()
        self.agents = self.possible_agents.copy()
        self._settle(self._state)

    def step(self, actions: Mapping[int, SupportsIndex | Speech]) -> StepResult:
        """Apply one action number of each player who must act.

        Return `(observations, rewards, terminations, truncations, infos)`; terminations and
        truncations also have the key "__all__". A reward is what the player has earned since its
        last key, so the rewards of a player add up to its return.

        Nothing has changed if an error is raised:

        Raises:
            IllegalAction: An action is not legal, or a player is not to act.
            UsageError: A player is missing, or the game is over.
        """
        self.move(actions)
        observations, infos = self._arrays()
        keys: list[int | str] = [*self.seen, "__all__"]
        return (
            observations,
            self.pay(self.seen),
            dict.fromkeys(keys, self.terminated),
            dict.fromkeys(keys, self.truncated),
            infos,
        )

    def move(self, actions: Mapping[int, SupportsIndex | Speech]) -> None:
        """Apply actions as `step` does, without arrays; see `seen` and `pay`. Raises its errors."""
        state = self.state
        for player, action in self._decode(state.to_act, actions):
            state._apply(player, action)  # `_decode` has checked the action like `apply` does.
        self._settle(state)

    def pay(self, players: Iterable[int]) -> dict[int, float]:
        """Return what each of these players has earned since it was last paid."""
        earned, rewards = self.state.returns(), {}
        for player in players:
            rewards[player] = earned[player] - self._paid[player]
            # A player that is left out now is paid later.
            self._paid[player] = earned[player]
        return rewards

    def _decode(
        self, acting: Sequence[int], actions: Mapping[int, SupportsIndex | Speech]
    ) -> list[tuple[int, Action]]:
        """Return the actions in the order of `to_act`; check all before one is applied."""
        if not self.agents:
            raise UsageError("the game is over: call reset()")
        for player in actions:
            if player not in acting:
                raise IllegalAction(f"player {player!r} is not to act; {list(acting)} must")
        for player in acting:
            if player not in actions:
                raise UsageError(f"player {player} has no action; {list(acting)} must act")
        # In the order of `to_act`: the game must not depend on the order of the caller's dict.
        return [(player, self.action(player, actions[player])) for player in acting]

    def _settle(self, state: State) -> None:
        """Draw chance, then see who must act or whether the game is over."""
        # Chance is not drawn after the limit, since the game is truncated there.
        while state.to_act == (CHANCE,) and state.turn <= self._limit:
            # What the state has drawn itself is possible.
            state._apply(CHANCE, state.sample_chance(self._chance))
        players: Sequence[int] = state.to_act
        self.terminated = not players
        # As in `play`: a turn that starts after the limit truncates the game.
        self.truncated = not self.terminated and state.turn > self._limit
        if self.terminated or self.truncated:
            # At the end all players get a last observation and reward, also those not to act.
            self.agents, players = [], self.possible_agents
        self.seen = {player: state.observe(player) for player in players}
        if self.truncated:
            self.seen = {player: without_actions(seen) for player, seen in self.seen.items()}

    def _arrays(self) -> tuple[dict[int, ArrayObservation], dict[int, PlayerInfo]]:
        """Return observations and infos of `seen`."""
        observations: dict[int, ArrayObservation] = {}
        infos: dict[int, PlayerInfo] = {}
        read = self.game.arrays.read
        for player, seen in self.seen.items():
            mask = seen.legal_actions.mask
            observations[player] = {"observation": read(seen), "action_mask": mask}
            infos[player] = {"observation": seen}
        return observations, infos
