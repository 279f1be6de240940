"""RLlib: `make test-rllib` installs it in an environment of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from exact_value import value_against_random
from numpy.typing import NDArray

from arena.core.batch.tabulated import PositionTable
from arena.core.errors import UsageError
from arena.plugins.loader import make_game

ray = pytest.importorskip("ray", reason="RLlib is not installed: make test-rllib")
pytest.importorskip("ray.rllib", reason="RLlib is not installed: make test-rllib")
torch = pytest.importorskip("torch")

from ray.rllib.utils.pre_checks.env import check_multiagent_environments  # noqa: E402

from arena.envs.rllib import SHARED, RLlibEnv, masked_ppo  # noqa: E402

pytestmark = [
    pytest.mark.rllib,
    # The library's own warnings are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]

GAMES = ["kuhn_poker", "leduc_poker", "liars_dice", "goofspiel", "cluedo", "tictactoe"]
ITERATIONS = 12


@pytest.mark.parametrize("name", GAMES)
def test_rllibs_own_check_passes(name: str) -> None:
    # It samples actions without a mask, so several runs meet illegal ones too.
    for _ in range(5):
        check_multiagent_environments(RLlibEnv({"game": name}))


@pytest.mark.parametrize("name", GAMES)
def test_observations_fit_and_rewards_are_those_of_the_game(name: str) -> None:
    env, rng = RLlibEnv({"game": name, "max_turns": 40}), random.Random(0)
    observations, infos = env.reset(seed=3)
    earned, over = dict.fromkeys(env.possible_agents, 0.0), False
    while not over:
        assert list(observations) == list(infos) == list(env.arena.state.to_act)
        for player, seen in observations.items():
            assert env.observation_spaces[player].contains(seen)
        actions = {
            player: rng.choice(np.flatnonzero(seen["action_mask"]).tolist())
            for player, seen in observations.items()
        }
        observations, rewards, terminations, truncations, infos = env.step(actions)
        for player, reward in rewards.items():
            earned[player] += reward
        over = terminations["__all__"] or truncations["__all__"]
    assert list(observations) == env.possible_agents
    assert tuple(earned.values()) == pytest.approx(env.arena.state.returns())


def test_an_illegal_action_forfeits() -> None:
    env = RLlibEnv({"game": "tictactoe"})
    env.reset(seed=0)
    env.step({0: 4})
    observations, rewards, terminations, truncations, _ = env.step({1: 4})
    assert rewards == {0: 0.0, 1: -1.0}
    assert terminations == {0: True, 1: True, "__all__": True}
    assert not any(truncations.values())
    assert not any(seen["action_mask"].any() for seen in observations.values())


@pytest.mark.parametrize("config", [{}, None, {"game": 7}, {"game": "poker of no kind"}])
def test_wrong_configurations_are_usage_errors(config: dict[str, Any] | None) -> None:
    with pytest.raises(UsageError):
        RLlibEnv(config)


@pytest.fixture
def cluster() -> Iterator[None]:
    # "local": a cluster that runs on this machine already belongs to someone else.
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_ppo_learns_kuhn_poker(cluster: None) -> None:
    """The value against a random player is exact, so a difference is no luck of the cards."""
    torch.set_num_threads(1)
    table = PositionTable(make_game("kuhn_poker"))
    algorithm = (
        masked_ppo("kuhn_poker")
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .training(
            lr=3e-3,
            gamma=1.0,
            entropy_coeff=0.01,
            train_batch_size_per_learner=800,
            minibatch_size=200,
            num_epochs=6,
        )
        .debugging(seed=0)
        .build_algo()
    )

    def policy(vector: NDArray[np.float32], mask: NDArray[np.int8]) -> NDArray[Any]:
        seen = {"observations": vector, "action_mask": mask.astype(np.float32)}
        batch = {"obs": {name: torch.as_tensor(array)[None] for name, array in seen.items()}}
        with torch.no_grad():
            out = algorithm.get_module(SHARED).forward_inference(batch)
        chances: NDArray[Any] = torch.softmax(out["action_dist_inputs"][0], -1).numpy()
        return chances

    before = value_against_random(table, policy)
    for _ in range(ITERATIONS):
        algorithm.train()
    after = value_against_random(table, policy)
    algorithm.stop()
    print(f"value against a random player: {before:+.3f} before, {after:+.3f} after")
    assert after > before + 0.15
    assert after > 0.2
