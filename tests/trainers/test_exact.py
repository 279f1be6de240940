"""The optimum of a network on the exact values of a small game: no games are sampled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from answer_trees import AnswerTrees, ScoredAnswer
from exact_gradients import drawn_policy, lost
from exact_policies import information_sets
from policy_table import tabulate
from small_runs import small_base

from arena.agents.chat import Chat, ChatOptions, opening
from arena.evaluation.exact.exploitability import policy_array
from arena.evaluation.exact.game_tree import game_tree
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.embedded.architecture import read_architecture
from backends.embedded.layers import read_state_dict
from backends.embedded.sampler import Sampler
from trainers.algorithms.learner import Learner
from trainers.config.update import UpdateOptions

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_base(tmp_path_factory.mktemp("base") / "model")


def test_updates_lead_a_network_to_a_best_response(base: Path, tmp_path: Path) -> None:
    """The optimizer follows exact values of each action; the checkpoint plays as it was scored."""
    game, seat = make_game("kuhn_poker"), 0
    tree, options = game_tree(game), ChatOptions()
    sampler, learner = Sampler(base), Learner(base)
    answers = []
    for situation in information_sets(game).values():
        chat = Chat(opening(game, options, "notes", None), options.chat, "notes")
        for move in situation.before:
            chat.ask(move.observation)
            chat.add_reply(str(move.action))
        chat.ask(situation.observation)
        prompt = sampler.encode(chat.messages)
        texts = [str(action) for action in situation.observation.legal_actions]
        tokens = sampler.tokenizer.encode_plain(texts)
        answers += [ScoredAnswer(prompt, [*ids, *sampler.end_ids[:1]]) for ids in tokens]
    trees = AnswerTrees(answers, 4096)
    own = tree.players == seat

    def policy() -> np.ndarray:
        scores = trees.logprobs(learner.weights(), learner.architecture).double().numpy()
        return np.where(own, tree.softmax(scores), opponent)

    opponent = drawn_policy(tree, 7)
    before = lost(tree, policy(), seat)
    for _ in range(60):
        # Cross-entropy towards e^(Q / 0.1): a best response with a little entropy.
        target = tree.softmax(tree.action_values(policy()) / 0.1)
        weights = torch.tensor(np.where(own, target, 0.0), dtype=torch.float32)
        learner.descend(trees.losses(learner, weights), UpdateOptions(learning_rate=3e-3))
    assert lost(tree, policy(), seat) < 0.05 < before
    learner.save(tmp_path / "model", {})

    async def played() -> np.ndarray:
        async with LLMService() as llm:
            table = await tabulate(game, llm, f"embedded:{tmp_path / 'model'}", options)
        return policy_array(game, [table] * game.num_players)

    found = np.where(own, asyncio.run(played()), opponent)
    assert found == pytest.approx(policy(), abs=1e-3)


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
