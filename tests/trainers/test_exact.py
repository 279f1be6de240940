"""Exact mode: values of the whole tree in place of games."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from policy_table import tabulate
from scripted_table import quick
from small_runs import Notes, small_base

from arena.agents.chat import ChatOptions
from arena.core.errors import ArenaError, UsageError
from arena.evaluation.exact.exploitability import exploitability
from arena.evaluation.exact.game_tree import game_tree
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.embedded.architecture import read_architecture
from backends.embedded.layers import read_state_dict
from trainers.algorithms.answer_trees import AnswerTrees, ScoredAnswer
from trainers.config.config import TrainConfig
from trainers.loop.exact import MirrorDescent
from trainers.loop.grpo import train
from trainers.runs.records import RunFiles, StepRecord, read_records


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_base(tmp_path_factory.mktemp("base") / "model")


def learn(base: Path, folder: Path, **changes: Any) -> list[StepRecord]:
    few: dict[str, Any] = {
        "game": "kuhn_poker", "trainer_host": "embedded", "base_model": str(base), "threads": 1,
        "exact": True, "entropy_coef": 0.5, "exact_step": 1.0, "minibatches": 8,
        "learning_rate": 3e-3, "steps": 25, "keep_pool": 2, "stop_legal_rate": 0.0,
    }  # fmt: skip
    config = TrainConfig(**few | changes)
    asyncio.run(train(config, folder=folder, view=Notes(), settings=quick()))
    return read_records(RunFiles(folder).metrics)


def test_weights_follow_their_target_and_records_agree_with_players(
    base: Path, tmp_path: Path
) -> None:
    records = learn(base, tmp_path / "x")
    found = [record.update["exploitability"] for record in records]
    # Random weights begin with replies that are not legal.
    assert records[-1].update["kl_target"] < 0.5 * records[1].update["kl_target"]
    assert (records[-1].legal_rate or 0.0) > 2 * (records[1].legal_rate or 0.0)

    # The recorded number is that of the checkpoint as a player.
    async def table() -> float:
        async with LLMService() as llm:
            spec = f"embedded:{RunFiles(tmp_path / 'x').checkpoint(25)}"
            game = make_game("kuhn_poker")
            return exploitability(game, await tabulate(game, llm, spec, ChatOptions()))

    assert asyncio.run(table()) == pytest.approx(found[-1], abs=1e-3)


def test_a_resumed_run_continues_to_the_bit(base: Path, tmp_path: Path) -> None:
    settings = {"kl_coef": 0.2, "kl_reference_every": 2, "minibatches": 2}
    whole = learn(base, tmp_path / "whole", steps=4, **settings)
    learn(base, tmp_path / "parts", steps=3, **settings)
    parts = learn(base, tmp_path / "parts", steps=4, **settings)
    assert [one.update["exploitability"] for one in whole] == [
        one.update["exploitability"] for one in parts
    ]


def test_a_table_reaches_the_equilibrium() -> None:
    tree = game_tree(make_game("leduc_poker"))
    table, policy = MirrorDescent(tree), tree.uniform()
    for step in range(150):
        policy = table.step(policy, eta=0.1, tau=0.02 ** (step / 149))
    # Without the optimistic guess 0.3 chips are left.
    assert tree.exploitability(policy) < 0.06


def test_a_run_without_its_table_does_not_continue(base: Path, tmp_path: Path) -> None:
    learn(base, tmp_path / "x", steps=1)
    (tmp_path / "x" / "targets-0001.npy").write_bytes(b"?")
    with pytest.raises(ArenaError, match=r"targets-0001.npy: the table of targets of step 1 is"):
        learn(base, tmp_path / "x", steps=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"game": "cluedo"}, r"exact=true: Cluedo.* has about .* positions, at most 400,000"),
        ({"opponents": "bot:random"}, "--opponents bot:random: with exact=true"),
        ({"reward": "win=1"}, "--reward win=1: with exact=true"),
        (
            {"credit": "turn", "loss": "ppo", "group_scorer": "nowhere:text", "async_steps": 2},
            "^--async-steps 2, --credit turn, --set group_scorer=nowhere:text, --loss ppo: with",
        ),
        (
            {"expert": "nonsense", "track": "nothing", "precision": "bf16", "eval_every": 1},
            "^--set precision=bf16, --set expert=nonsense, --eval-every 1, --track nothing: with",
        ),
        ({"prompt": "nonsense"}, "nonsense"),
    ],
)
def test_what_exact_mode_cannot_do(
    base: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        learn(base, tmp_path / "x", **changes)


def test_a_tree_of_answers_has_the_numbers_of_separate_sequences(base: Path) -> None:
    rng = np.random.default_rng(0)
    start = list(rng.integers(5, 50, 30))
    answers = [
        ScoredAnswer([*start, *rng.integers(5, 8, length)], [*rng.integers(5, 50, 2), 1])
        for length in (0, 1, 2, 2, 3, 3, 9)
    ]
    answers.append(ScoredAnswer(answers[0].prompt, [7, 1]))
    weights = {name: tensor.float() for name, tensor in read_state_dict(base).items()}
    architecture = read_architecture(base)
    together = AnswerTrees(answers, 4096).logprobs(weights, architecture)
    in_pieces = AnswerTrees(answers, 40).logprobs(weights, architecture)
    alone = torch.cat([AnswerTrees([one], 1).logprobs(weights, architecture) for one in answers])
    assert torch.allclose(together, alone, atol=1e-4)
    assert torch.allclose(in_pieces, alone, atol=1e-4)
