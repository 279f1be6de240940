"""Games as environments: MultiAgentEnv, Gymnasium and PettingZoo."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    seed_test,
)

from arena.core.action import CHANCE
from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game
from arena.envs.gymnasium import IDS, FlatActionMaskEnv, SingleAgentEnv
from arena.envs.multi_agent import ArrayObservation, MultiAgentEnv
from arena.envs.pettingzoo import to_parallel_pettingzoo, to_pettingzoo
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.plugins.catalog import catalog, make_game
from games.tictactoe.game import TicTacToe, TicTacToeState

GAMES: list[tuple[str, dict[str, Any]]] = [
    *((entry.name, {}) for entry in catalog().entries("game") if entry.plugin == "games"),
    ("cluedo", {"variant": "classic", "players": 4}),
    ("goofspiel", {"players": 3, "cards": 4}),
]
every_game = pytest.mark.parametrize(("name", "options"), GAMES, ids=str)


def choose(observations: dict[int, ArrayObservation], rng: random.Random) -> dict[int, int]:
    """A random legal action number for each player who must act."""
    return {
        player: int(rng.choice(np.flatnonzero(seen["action_mask"])))
        for player, seen in observations.items()
    }


def record(game: Game, seed: int, specs: list[str] | None = None) -> Episode:
    specs = specs or ["bot:random"] * game.num_players
    return asyncio.run(play(Match(game, specs, seed)))


def moves_of(episode: Episode, game: Game, player: int) -> list[int]:
    """The numbers of the actions that `player` chose."""
    return [
        game.actions.index[ply.decision.action] for ply in episode.plies if ply.player == player
    ]


def events_of(episode: Episode) -> list[object]:
    return [event for ply in episode.plies for event in ply.events]


# MultiAgentEnv


@every_game
def test_random_play(name: str, options: dict[str, Any]) -> None:
    """Keys are those who must act, observations fit their space, rewards add up to returns."""
    env = MultiAgentEnv(make_game(name, **options), max_turns=30)
    rng = random.Random(0)
    for seed in range(5):
        observations, infos = env.reset(seed=seed)
        earned = dict.fromkeys(env.possible_agents, 0.0)
        while env.agents:
            assert tuple(observations) == tuple(infos) == env.state.to_act
            for player, seen in observations.items():
                assert env.observation_space(player).contains(seen)
                assert seen["action_mask"].any()
                assert infos[player]["observation"].text()
            step = env.step(choose(observations, rng))
            observations, rewards, terminations, truncations, infos = step
            assert set(terminations) == set(truncations) == {*observations, "__all__"}
            assert set(rewards) == set(observations)
            for player, reward in rewards.items():
                earned[player] += reward
        assert list(observations) == env.possible_agents
        assert terminations["__all__"] == env.state.is_terminal != truncations["__all__"]
        assert all(
            env.observation_space(player).contains(seen) for player, seen in observations.items()
        )
        assert not any(seen["action_mask"].any() for seen in observations.values())
        assert tuple(earned.values()) == pytest.approx(env.state.returns())


@every_game
def test_a_seed_gives_the_same_game_as_play(name: str, options: dict[str, Any]) -> None:
    game = make_game(name, **options)
    episode = record(game, seed=7)
    moves = {player: iter(moves_of(episode, game, player)) for player in range(game.num_players)}
    env = MultiAgentEnv(game)
    observations, _ = env.reset(seed=7)
    while env.agents:
        observations, *_ = env.step({player: next(moves[player]) for player in observations})
    assert env.state.log.events == events_of(episode)
    assert env.state.returns() == episode.outcome.returns


def test_illegal_actions_change_nothing() -> None:
    env = MultiAgentEnv(make_game("tictactoe"))
    observations, _ = env.reset(seed=0)
    env.step({0: 4})
    before = env.state.log.events.copy()
    for actions, message in (
        ({1: 4}, r"player 1: action 4, '.+', is not allowed now"),
        ({1: 9}, "player 1: there is no action 9; they go from 0 to 8"),
        ({1: -1}, "player 1: there is no action -1"),
        ({1: 0.5}, "player 1: 0.5 is not an action number"),
        ({0: 0}, r"player 0 is not to act; \[1\] must"),
        ({1: 0, 0: 1}, r"player 0 is not to act; \[1\] must"),
    ):
        with pytest.raises(IllegalAction, match=message):
            env.step(actions)  # type: ignore[arg-type]
    assert env.state.log.events == before
    assert env.state.to_act == (1,)
    assert list(observations) == [0]


@pytest.mark.parametrize("seed", [1.5, "7", True, 2**70, -(2**64), np.float64(1), [1]])
def test_wrong_seeds_are_usage_errors(seed: Any) -> None:
    game = make_game("kuhn_poker")
    message = r"seed=.*: give a whole number from -2\*\*63 to 2\*\*63 - 1"
    for env in (MultiAgentEnv(game), SingleAgentEnv(game), to_parallel_pettingzoo(game)):
        with pytest.raises(UsageError, match=message):
            env.reset(seed=seed)
    with pytest.raises(UsageError, match=message):
        to_pettingzoo(game).reset(seed=seed)


def test_nobody_moves_unless_all_who_must_do() -> None:
    env = MultiAgentEnv(make_game("goofspiel", players=3))
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"player 2 has no action; \[0, 1, 2\] must act"):
        env.step({0: 0, 1: 0})
    with pytest.raises(IllegalAction, match="player 2: there is no action 99"):
        env.step({0: 0, 1: 0, 2: 99})
    assert env.state.to_act == (0, 1, 2)


@pytest.mark.parametrize("variant", ["cards", "classic"])
def test_truncation(variant: str) -> None:
    game = make_game("cluedo", variant=variant)
    env = MultiAgentEnv(game, max_turns=2)
    end = game.actions.index[game.actions.parse("end turn")]
    observations, _ = env.reset(seed=1)
    rng = random.Random(0)
    while env.agents:
        actions = {
            p: end if seen["action_mask"][end] else choose({p: seen}, rng)[p]
            for p, seen in observations.items()
        }
        observations, _, terminations, truncations, infos = env.step(actions)
    assert env.state.turn == 3
    assert truncations == dict.fromkeys([*env.possible_agents, "__all__"], True)
    assert terminations == dict.fromkeys([*env.possible_agents, "__all__"], False)
    assert not any(info["observation"].legal_actions for info in infos.values())
    with pytest.raises(UsageError, match="max_turns=0"):
        MultiAgentEnv(game, max_turns=0)


# Gymnasium


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_checks_every_id(name: str) -> None:
    check_env(gymnasium.make(name).unwrapped)


def test_the_games_with_arrays_have_an_id() -> None:
    names = {name for name, _ in GAMES if make_game(name).arrays.specs}
    assert names == {*IDS.values()}


@every_game
def test_the_learner_meets_the_same_game_as_in_play(name: str, options: dict[str, Any]) -> None:
    game = make_game(name, **options)
    learner = game.num_players - 1
    episode = record(game, seed=3)
    env = SingleAgentEnv(game, player=learner, opponents="bot:random")
    env.reset(seed=3)
    rewards = []
    for move in moves_of(episode, game, learner):
        seen, reward, terminated, truncated, _ = env.step(move)
        assert seen in env.observation_space
        rewards.append(reward)
    if rewards:
        assert terminated or truncated
        assert sum(rewards) == pytest.approx(episode.outcome.returns[learner])
    assert env.env.state.log.events == events_of(episode)


def test_an_illegal_action_forfeits() -> None:
    env = gymnasium.make("arena/TicTacToe-v0")
    _, info = env.reset(seed=0)
    _, _, _, _, info = env.step(0)
    assert "illegal_action" not in info
    seen, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert "action 0" in info["illegal_action"]
    assert not seen["action_mask"].any() and not info["action_mask"].any()
    assert seen in env.observation_space
    with pytest.raises(UsageError, match=r"call reset\(\)"):
        env.step(1)


def test_seats_and_opponents_are_checked_at_once() -> None:
    mixed = SingleAgentEnv("cluedo", player=1, opponents=["bot:novice", "bot:oracle"], players=3)
    assert mixed.specs[::2] == ["bot:novice", "bot:oracle"]
    for kwargs, message in (
        ({"player": 3}, "player=3: the seats go from 0 to 2"),
        ({"opponents": ["bot:random"]}, "opponents names 1 players; .* needs 2"),
        ({"opponents": "bot:nobody"}, "has no bot 'nobody'"),
        ({"sides": 3}, "has no option 'sides'"),
    ):
        with pytest.raises(UsageError, match=message):
            SingleAgentEnv("cluedo", **{"players": 3, **kwargs})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has its options already; leave out players"):
        SingleAgentEnv(make_game("cluedo"), players=3)


# Stable-Baselines3


@every_game
def test_the_flat_wrapper_plays_the_same_game(name: str, options: dict[str, Any]) -> None:
    game = make_game(name, **options)
    inner, flat = SingleAgentEnv(game), FlatActionMaskEnv(SingleAgentEnv(game))
    assert isinstance(flat.observation_space, gymnasium.spaces.Box)
    assert isinstance(flat.action_space, gymnasium.spaces.Discrete)
    assert not flat.action_masks().any()
    rng = random.Random(0)
    seen, _ = inner.reset(seed=3)
    vector, _ = flat.reset(seed=3)
    over = False
    while not over and flat.action_masks().any():
        masks = flat.action_masks()
        assert masks.dtype == bool and (masks == seen["action_mask"]).all()
        assert vector.dtype == np.float32 and vector in flat.observation_space
        joined = [seen["observation"][key].ravel() for key in game.arrays.specs]
        assert (vector == np.concatenate(joined or [np.zeros(1)])).all()
        action = int(rng.choice(np.flatnonzero(masks)))
        seen, reward, terminated, truncated, info = inner.step(action)
        vector, *result, flat_info = flat.step(action)
        assert result == [reward, terminated, truncated]
        assert flat_info["observation"] == info["observation"]
        over = terminated or truncated
    flat.action_masks()[:] = True
    assert not flat.action_masks().any(), "the end: nothing is legal, and the array was a copy"


def test_gymnasiums_vector_environment_plays_the_games_of_their_seeds() -> None:
    """Game i has the seed `seed + i`; an ended game is followed by the next one at once."""

    def make() -> FlatActionMaskEnv:
        return FlatActionMaskEnv(gymnasium.make("arena/LeducPoker-v0"))

    env = SyncVectorEnv([make] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    singles, rng, ended = [make() for _ in range(3)], random.Random(0), 0
    seen, infos = env.reset(seed=5)
    begun = [single.reset(seed=5 + place) for place, single in enumerate(singles)]
    assert (seen == np.stack([vector for vector, _ in begun])).all()
    for _ in range(60):
        assert "illegal_action" not in infos and "illegal_action" not in infos.get("final_info", {})
        actions = [int(rng.choice(np.flatnonzero(mask))) for mask in infos["action_mask"]]
        seen, rewards, terminations, _, infos = env.step(np.array(actions))
        for place, (single, action) in enumerate(zip(singles, actions, strict=True)):
            vector, reward, terminated, truncated, info = single.step(action)
            assert (reward, terminated) == (rewards[place], terminations[place])
            if terminated or truncated:
                ended += 1
                vector, info = single.reset()
            assert (seen[place] == vector).all()
            assert (infos["action_mask"][place] == info["action_mask"]).all()
    assert ended > 20


# PettingZoo

ignore_what_pettingzoo_knows_only_of_its_own = pytest.mark.filterwarnings(
    # It expects observations with a mask only of its own environments, which it knows by name.
    "ignore:Observation is not a NumPy array:UserWarning",
    "ignore:Observation space for each agent probably should be:UserWarning",
    # An empty board is all zeros.
    "ignore:Observation numpy array is all zeros:UserWarning",
    # A game without arrays is one zero.
    "ignore:Observation is a single number:UserWarning",
)


@every_game
@ignore_what_pettingzoo_knows_only_of_its_own
def test_pettingzoo_checks_every_game(name: str, options: dict[str, Any]) -> None:
    game = make_game(name, **options)
    api_test(to_pettingzoo(game), num_cycles=100)
    api_test(to_pettingzoo(game, max_turns=2), num_cycles=100)
    seed_test(lambda: to_pettingzoo(game), num_cycles=50)


def test_pettingzoo_plays_the_same_game() -> None:
    game = make_game("goofspiel", players=3)
    episode = record(game, seed=5)
    chosen = [ply for ply in episode.plies if ply.player != CHANCE]
    env = to_pettingzoo(game)
    env.reset(seed=5)
    for ply in chosen:
        assert env.agent_selection == f"player_{ply.player}"
        env.step(game.actions.index[ply.decision.action])
    assert tuple(env.rewards.values()) == pytest.approx(episode.outcome.returns)
    assert all(env.terminations.values())


class LegalActions(gymnasium.spaces.Discrete):
    """Samples legal actions: some of PettingZoo's tests do not use the mask."""

    def __init__(self, env: Any, agent: str) -> None:
        super().__init__(env.action_space(agent).n)
        self.observe: Callable[[], Any] = lambda: env.unwrapped.observe(agent)

    def sample(self, *_: object, **__: object) -> Any:
        return super().sample(mask=self.observe()["action_mask"])


def with_legal_samples(env: Any) -> Any:
    spaces = {agent: LegalActions(env, agent) for agent in env.possible_agents}
    env.action_space = spaces.__getitem__
    return env


@every_game
@ignore_what_pettingzoo_knows_only_of_its_own
def test_pettingzoo_checks_every_game_in_parallel(name: str, options: dict[str, Any]) -> None:
    game = make_game(name, **options)
    parallel_api_test(to_parallel_pettingzoo(game), num_cycles=100)
    parallel_api_test(to_parallel_pettingzoo(game, max_turns=2), num_cycles=100)
    parallel_seed_test(lambda: with_legal_samples(to_parallel_pettingzoo(game)), num_cycles=50)


def test_pettingzoo_shows_nothing_before_the_last_has_committed() -> None:
    env = to_pettingzoo(make_game("goofspiel", players=2))
    env.reset(seed=0)
    before = env.observe("player_1")["observation"]
    env.step(5)
    assert env.agent_selection == "player_1"
    assert (env.observe("player_1")["observation"] == before).all()
    for action in (99, None):
        with pytest.raises(IllegalAction, match="player_?.?1"):
            env.step(action)
    assert env.agent_selection == "player_1"


# Rewards before the end


class PayingState(TicTacToeState):
    """Pays one point for each move of a player as soon as it is made."""

    def returns(self) -> tuple[float, ...]:
        moves = len(self.log.events)
        return (float((moves + 1) // 2), float(moves // 2))


class Paying(TicTacToe):
    def initial_state(self) -> TicTacToeState:
        return PayingState(self)


def test_interim_rewards_are_paid_once() -> None:
    env, rng = MultiAgentEnv(Paying()), random.Random(1)
    observations, _ = env.reset(seed=1)
    paid = {0: 0.0, 1: 0.0}
    while env.agents:
        observations, rewards, *_ = env.step(choose(observations, rng))
        assert all(reward in (0.0, 1.0) for reward in rewards.values())
        for player, reward in rewards.items():
            paid[player] += reward
    assert tuple(paid.values()) == env.state.returns() and sum(paid.values()) >= 5


# Imports


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def test_arena_does_not_import_gymnasium() -> None:
    assert run_python("import arena, sys; print('gymnasium' in sys.modules)").strip() == "False"


@pytest.mark.parametrize(
    ("library", "module"),
    [("pettingzoo", "arena.envs.pettingzoo"), ("verifiers", "trainers.verifiers.environment")],
)
def test_a_library_that_is_missing_is_named_with_its_extra(library: str, module: str) -> None:
    code = (
        f"import sys; sys.modules['{library}'] = None\n"
        "from arena.core.errors import MissingDependency\n"
        f"try: import {module}\n"
        "except MissingDependency as error: print(error)"
    )
    assert f"[{library}]'" in run_python(code)
