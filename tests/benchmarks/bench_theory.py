"""Does it learn what theory says? Games whose best policy is known exactly.

    pytest tests/benchmarks/bench_theory.py -s

Fixed points of the objective by exact gradients: how many of 24 problems (12 random opponents, two
seats) in Kuhn poker, and of 8 in Leduc poker and in liar's dice (one die of three faces), end in a
policy that loses more than 0.01 chips against the best response. Kuhn poker values no decisions; as
in Leduc poker, `judged` is the probability of the move in an equilibrium there.

Exact mode: the exploitability after self-play with exact values, and that of a table in place of
the weights.

Against a fixed opponent (uniformly random) the share of the exact best-response value that the
trained policy reaches, for three seeds. By self-play the exploitability (Lanctot et al. 2017:
NashConv / 2; 0 is an equilibrium, uniform play has 11/24) of the newest checkpoint, and beside it
that of the average of the checkpoints that were kept.

Without a penalty self-play cycles around an equilibrium. Regularised towards a policy of some steps
ago it converges, as mirror descent does (Sokota et al. 2023). What is left then is noise, so the
learning rate falls.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from exact_gradients import (
    Objective,
    drawn_policy,
    fixed_point,
    judged_by_the_equilibrium,
    judged_by_the_game,
    lost,
)
from exact_policies import against, average
from policy_table import PolicyTable, tabulate

from arena.agents.agent import uniform
from arena.agents.chat import ChatOptions
from arena.cli.training_session import TrainingLines
from arena.evaluation.exact.exploitability import exploitability
from arena.evaluation.exact.game_tree import game_tree
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.loader import make_game
from trainers.algorithms.loss import LossOptions
from trainers.config.config import TrainConfig
from trainers.credit.estimators import GAME_SHARE
from trainers.loop.exact import MirrorDescent
from trainers.loop.grpo import train
from trainers.runs.records import RunFiles, RunState, read_records

KUHN: dict[str, Any] = {
    "game": "kuhn_poker",
    "trainer_host": "embedded",
    # Two chips are won or lost by luck: a reply that is no move has to cost as much.
    "reward": "win=1,format=2",
    # An answer has two tokens. A runaway one of 256 would weigh more than all others of its step.
    "max_tokens": 4,
    # Many small steps: what to do with which card is learned later than what is good on average.
    "groups_per_step": 12,
    "rollouts_per_group": 16,
    "minibatches": 1,
    "scale_advantages": False,
    "learning_rate": 3e-4,
    "threads": 1,
    "eval_every": 0,
    "final_eval_games": 0,
    "log_sample_rate": 0.0,
}


@dataclass(frozen=True, slots=True)
class Trained:
    tables: list[PolicyTable]
    """The policies of the checkpoints that were kept, oldest first."""
    seconds: float


async def table_of(folder: Path) -> PolicyTable:
    game = make_game("kuhn_poker")
    async with LLMService() as llm:
        return await tabulate(game, llm, f"embedded:{folder}", ChatOptions())


def trained_run(folder: Path, **settings: Any) -> RunState:
    """Train a model from nothing."""
    return run(TrainConfig(**{**KUHN, **settings}), folder)


def run(config: TrainConfig, folder: Path) -> RunState:
    return asyncio.run(train(config, folder=folder, view=TrainingLines(), settings=Settings.load()))


def trained(folder: Path, **settings: Any) -> Trained:
    """Train a model from nothing, and read the policies off its checkpoints."""
    started = time.perf_counter()
    state = trained_run(folder, **settings)
    seconds = time.perf_counter() - started
    found = (RunFiles(folder).checkpoint(step) for step in range(1, state.step + 1))
    return Trained([asyncio.run(table_of(each)) for each in found if each], seconds)


OBJECTIVES = {
    "cispo": Objective(),
    "ppo": Objective(options=LossOptions(loss_fn="ppo")),
    "cispo, with std": Objective(scale=True),
    "ppo, with std": Objective(scale=True, options=LossOptions(loss_fn="ppo")),
    "advantage_balance 0.5": Objective(balance=0.5),
    "advantage_balance -0.5": Objective(balance=-0.5),
    "entropy_coef 0.1": Objective(entropy=0.1),
    "kl_coef 0.1, uniform reference": Objective(options=LossOptions(kl_penalty_coef=0.1)),
}
"""Options of the objective that may move its optimum."""


DICE: dict[str, Any] = {"dice": 1, "faces": 3}


@pytest.mark.parametrize(
    ("name", "options", "opponents"),
    [("kuhn_poker", {}, 12), ("leduc_poker", {}, 4), ("liars_dice", DICE, 4)],
)
def test_fixed_points(name: str, options: dict[str, Any], opponents: int) -> None:
    game = make_game(name, **options)
    tree = game_tree(game)
    judged = (judged_by_the_game if game.analysis.decision_kinds else judged_by_the_equilibrium)(
        tree
    )
    credited = {
        "judged": Objective(judged=judged, game_weight=GAME_SHARE),
        "judged, judged_steps 75": Objective(
            judged=judged, game_weight=GAME_SHARE, judged_steps=75
        ),
    }
    print(f"\n{name}: chips a game less than the best response, of {2 * opponents} problems")
    for title, objective in (OBJECTIVES | credited).items():
        losses = []
        for seed in range(opponents):
            policy = drawn_policy(tree, seed)
            for seat in (0, 1):
                found = fixed_point(tree, policy, seat, objective, 150, 3.0)
                losses.append(lost(tree, found, seat))
        wrong = sum(each > 0.01 for each in losses)
        print(f"{title:32} {wrong:2} above 0.01, worst {max(losses):.3f}")
        if title in ("cispo", "ppo"):
            assert not wrong


EXACT: dict[str, Any] = {
    "trainer_host": "embedded", "threads": 1, "exact": True, "minibatches": 4,
    "learning_rate": 3e-3, "learning_rate_end": 3e-4, "steps": 150, "keep_pool": 1,
}  # fmt: skip
"""Settings of exact mode in all games."""
EXACT_GAMES: dict[str, tuple[dict[str, Any], float]] = {
    "kuhn_poker": ({"exact_step": 0.2, "entropy_coef": 1.0, "penalty_end": 0.02}, 0.02),
    "leduc_poker": (
        {"exact_step": 0.1, "entropy_coef": 1.0, "penalty_end": 0.08},
        0.3,
    ),
    "liars_dice": (
        {"exact_step": 0.5, "entropy_coef": 0.1, "penalty_end": 0.05, "options": DICE},
        0.1,
    ),
}
"""Settings of each game, and the exploitability that is not exceeded."""


@pytest.mark.parametrize(
    ("name", "seed"),
    [*(("kuhn_poker", seed) for seed in (0, 1, 2)), ("leduc_poker", 0), ("liars_dice", 0)],
)
def test_exact_mode(tmp_path: Path, name: str, seed: int) -> None:
    settings, most = EXACT_GAMES[name]
    started = time.perf_counter()
    run(TrainConfig(game=name, seed=seed, **EXACT | settings), tmp_path / "run")
    last = read_records(RunFiles(tmp_path / "run").metrics)[-1]
    found, seconds = last.update["exploitability"], time.perf_counter() - started
    game = make_game(name, **settings.get("options", {}))
    table, tree = MirrorDescent(game_tree(game)), game_tree(game)
    policy, steps = tree.uniform(), EXACT["steps"]
    for step in range(steps):
        penalty = settings["penalty_end"] ** (step / (steps - 1))
        policy = table.step(policy, settings["exact_step"], settings["entropy_coef"] * penalty)
    print(
        f"\n{name}, seed {seed}, exact values: exploitability {found:.4f} chips, {seconds:.0f} s; "
        f"table {tree.exploitability(policy):.4f}"
    )
    assert found < most


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_best_response_to_a_known_opponent(tmp_path: Path, seed: int) -> None:
    """The penalty pulls back what was given up too early: to fold the Jack, above all."""
    game = make_game("kuhn_poker")
    found = trained(tmp_path / "run", seed=seed, opponents="bot:random", steps=500, kl_coef=0.05)
    response = against(game, found.tables[-1], uniform)
    print(
        f"\nseed {seed}: {response.value:+.4f} chips of {response.best:+.4f} at best: "
        f"{response.share:.1%}, {found.seconds:.0f} s"
    )
    assert response.share >= 0.95


SELF_PLAY: dict[str, Any] = {
    "self_play": True, "steps": 800, "groups_per_step": 24, "rollouts_per_group": 8,
    "kl_coef": 1.0, "entropy_coef": 0.1, "learning_rate": 1e-3, "learning_rate_end": 5e-5,
    "keep_pool": 32,
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_self_play(tmp_path: Path, seed: int) -> None:
    game = make_game("kuhn_poker")
    found = trained(tmp_path / "run", seed=seed, **SELF_PLAY)
    newest = exploitability(game, found.tables[-1])
    mean = exploitability(game, average(game, found.tables))
    print(
        f"\nself-play, seed {seed}: exploitability {newest:.3f} chips a game, {mean:.3f} of the "
        f"average of the last {len(found.tables)} checkpoints, {found.seconds:.0f} s"
    )
    assert newest < 0.1
