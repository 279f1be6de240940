"""Stable-Baselines3: `make test-sb3` installs it in an environment of its own."""

from __future__ import annotations

import numpy as np
import pytest

from arena.core.errors import UsageError

pytest.importorskip("sb3_contrib", reason="Stable-Baselines3 is not installed: make test-sb3")
torch = pytest.importorskip("torch")  # Second: where it is not needed, it is not imported.

from gymnasium.utils.env_checker import check_env as gymnasium_check  # noqa: E402
from sb3_contrib import MaskablePPO  # noqa: E402
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402

from arena.envs.sb3 import masked_env, masked_ppo, mean_return  # noqa: E402

pytestmark = [
    pytest.mark.sb3,
    # The library's own warnings are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]

SETTINGS = {"n_steps": 128, "batch_size": 256, "learning_rate": 1e-3}


@pytest.mark.parametrize("name", ["kuhn_poker", "liars_dice", "goofspiel", "cluedo"])
def test_the_libraries_own_checks_pass(name: str) -> None:
    check_env(masked_env(name))
    gymnasium_check(masked_env(name), skip_render_check=True)


def test_masks_are_those_of_the_game() -> None:
    model = masked_ppo("cluedo", num_envs=2, seed=0, settings=SETTINGS)
    env = model.get_env()
    assert env is not None and is_masking_supported(env)
    env.reset()
    masks = get_action_masks(env)
    assert masks.shape == (2, 649 + 21)
    # The first move of a turn: every suggestion and accusation, or the end of the turn.
    assert masks.sum(axis=1).tolist() == [649, 649]


def test_the_same_seed_gives_the_same_learner() -> None:
    first, second = (
        masked_ppo("kuhn_poker", num_envs=4, seed=5, settings=SETTINGS).learn(1024)
        for _ in range(2)
    )
    for one, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
    assert mean_return(first, 50, seed=9) == mean_return(second, 50, seed=9)


def test_ppo_beats_random_players_at_kuhn_poker() -> None:
    torch.set_num_threads(1)
    model = masked_ppo("kuhn_poker", seed=0, settings=SETTINGS)
    before = mean_return(model, games=1000, seed=10**6)
    model.learn(20_000)
    after = mean_return(model, games=1000, seed=10**6)
    print(f"chips a game: {before.mean:+.3f} before, {after.mean:+.3f} after")
    assert after.low > max(0.0, before.mean)


def test_ppo_wins_small_games_of_cluedo() -> None:
    """Two suspects, two weapons and two rooms: a random player wins about one game in five."""
    torch.set_num_threads(1)
    model = masked_ppo(
        "cluedo", seed=0, settings=SETTINGS, players=2, suspects=2, weapons=2, rooms=2
    )
    before = mean_return(model, games=400, seed=10**6)
    model.learn(20_000)
    after = mean_return(model, games=400, seed=10**6)
    print(f"win rate: {before.mean:.3f} before, {after.mean:.3f} after")
    assert after.low > before.high


def test_wrong_arguments_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="player=5"):
        masked_ppo("kuhn_poker", player=5)
    with pytest.raises(UsageError, match="games=1"):
        mean_return(masked_ppo("kuhn_poker", num_envs=1), 1, 0)
    lonely = MaskablePPO("MlpPolicy", "CartPole-v1")
    with pytest.raises(UsageError, match="no environment of arena"):
        mean_return(lonely, 2, 0)
