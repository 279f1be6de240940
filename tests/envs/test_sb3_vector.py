"""The example `seat_vec_env.py`: `make test-sb3` installs Stable-Baselines3."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from arena.core.errors import IllegalAction, UsageError
from arena.envs.gymnasium import flatten
from arena.envs.multi_agent import MultiAgentEnv
from arena.plugins.loader import make_game

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib", reason="Stable-Baselines3 is not installed: make test-sb3")

from sb3_contrib import MaskablePPO  # noqa: E402
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported  # noqa: E402

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "examples"))
from seat_vec_env import SeatVecEnv, any_legal  # noqa: E402

pytestmark = [
    pytest.mark.sb3,
    # The library's own warnings are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]


def last_legal(masks: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose the legal action with the highest number: bots without chance, for comparisons."""
    actions: NDArray[np.int64] = masks.shape[1] - 1 - np.argmax(masks[:, ::-1], axis=1)
    return actions


class OneGame:
    """The same games one by one, by `MultiAgentEnv`."""

    def __init__(self, name: str, player: int, max_turns: int | None, seed: int) -> None:
        self.env, self.player = MultiAgentEnv(make_game(name), max_turns), player
        self.start(self.env.reset(seed=seed))

    def start(self, reset: Any) -> None:
        over = {"__all__": False}
        self.earned = 0.0
        self.play(reset[0], {}, over, over)
        while self.over:  # The opponents have ended it.
            self.start(self.env.reset())

    def play(self, seen: Any, rewards: Any, terminations: Any, truncations: Any) -> None:
        while True:
            self.earned += rewards.get(self.player, 0.0)
            self.over = terminations["__all__"] or truncations["__all__"]
            self.truncated = truncations["__all__"]
            if self.over or self.player in seen:
                self.seen = seen[self.player]
                return
            [(player, other)] = seen.items()
            chosen = int(last_legal(other["action_mask"][None], np.random.default_rng())[0])
            seen, rewards, terminations, truncations, _ = self.env.step({player: chosen})

    def flat(self) -> NDArray[Any]:
        return flatten(self.env.game, self.seen["observation"])


@pytest.mark.parametrize(
    ("name", "player", "max_turns"),
    [("kuhn_poker", 1, None), ("cluedo", 2, 9), ("leduc_poker", 0, None), ("tictactoe", 1, None)],
)
def test_games_are_those_of_the_single_environment(
    name: str, player: int, max_turns: int | None
) -> None:
    """Observations, masks, rewards and ends are equal, with rules on arrays and without."""
    env = SeatVecEnv(name, 3, player, last_legal, max_turns)
    env.seed(40)
    observations, rng = env.reset(), np.random.default_rng(1)
    games = [OneGame(name, player, max_turns, 40 + row) for row in range(3)]
    ends = truncated = 0
    for _ in range(120):
        masks = get_action_masks(env)
        for row, game in enumerate(games):
            np.testing.assert_array_equal(observations[row], game.flat())
            np.testing.assert_array_equal(masks[row], game.seen["action_mask"])
        actions = any_legal(masks.astype(np.int8), rng)
        observations, rewards, dones, infos = env.step(actions)
        for row, game in enumerate(games):
            before = game.earned
            game.play(*game.env.step({player: int(actions[row])})[:4])
            assert rewards[row] == pytest.approx(game.earned - before)
            assert dones[row] == game.over
            if not game.over:
                continue
            np.testing.assert_array_equal(infos[row]["terminal_observation"], game.flat())
            assert infos[row]["TimeLimit.truncated"] == game.truncated
            assert infos[row]["episode"]["r"] == pytest.approx(game.earned)
            ends, truncated = ends + 1, truncated + game.truncated
            game.start(game.env.reset())
    assert ends > 5
    assert bool(truncated) == (max_turns is not None)


def test_any_legal_action_is_drawn_equally_often() -> None:
    masks = np.tile(np.array([[0, 1, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0]], np.int8), (30_000, 1))
    drawn = any_legal(masks, np.random.default_rng(0))
    assert set(drawn[1::2].tolist()) == {0}
    counts = np.bincount(drawn[::2], minlength=6)
    assert counts[[0, 2, 5]].sum() == 0
    # 10,000 expected of each; the standard deviation is 82.
    assert (abs(counts[[1, 3, 4]] - 10_000) < 400).all()


def test_maskable_ppo_learns_and_equal_seeds_give_equal_learners() -> None:
    def learned() -> MaskablePPO:
        env = SeatVecEnv("kuhn_poker", 64)
        assert is_masking_supported(env)
        settings = {"n_steps": 32, "batch_size": 512, "n_epochs": 4, "learning_rate": 3e-3}
        return MaskablePPO("MlpPolicy", env, seed=3, **settings).learn(12_288)

    torch.set_num_threads(1)
    first, second = learned(), learned()
    for one, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
    # Chips a game of the last 100 games; random play earns about 0.
    assert np.mean([episode["r"] for episode in first.ep_info_buffer or ()]) > 0.1


def test_wrong_arguments_are_clear_errors() -> None:
    with pytest.raises(UsageError, match="player=2"):
        SeatVecEnv("kuhn_poker", 1, player=2)
    with pytest.raises(UsageError, match="num_envs=0"):
        SeatVecEnv("kuhn_poker", 0)
    env = SeatVecEnv("tictactoe", 2)
    env.reset()
    env.step(np.array([4, 4]))
    illegal = np.argmin(env.action_masks(), axis=1)
    with pytest.raises(IllegalAction, match="game 0: action"):
        env.step(illegal)
    with pytest.raises(UsageError, match="render"):
        env.env_method("render")


def test_the_example_of_cluedo_trains_and_measures(tmp_path: Path) -> None:
    """A short training: the script works. The guide has the figures of a long one."""
    script = ROOT / "docs" / "examples" / "sb3_cluedo.py"
    out = tmp_path / "model.zip"
    command = [sys.executable, str(script), "--steps", "8192", "--games", "4", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 10_000
    assert "MaskablePPO" in done.stdout and done.stdout.count("bot:random") == 3
