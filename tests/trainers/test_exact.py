"""The optimum of a network on the exact values of a small game: no games are sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from decision_chats import action_logprobs, decision_chats
from small_runs import small_base
from torch import Tensor

from arena.evaluation.exact import Floats, GameTree, game_tree
from arena.plugins.catalog import make_game
from backends.embedded.sampler import Sampler
from trainers.algorithms.batching import minibatches
from trainers.algorithms.learner import Learner
from trainers.config.config import UpdateOptions
from trainers.trajectory import TokenSequence


def lost(tree: GameTree, policy: Floats, seat: int) -> float:
    """Return how much the seat's policy earns less than a best response."""
    best = tree.best_response(policy, seat)
    return float(tree.values(best)[0, seat] - tree.values(policy)[0, seat])


@pytest.mark.usefixtures("one_thread")
def test_updates_lead_a_network_to_a_best_response(tmp_path: Path) -> None:
    """The optimizer follows exact values of each action; the checkpoint plays as it was scored."""
    game, seat, base = make_game("kuhn_poker"), 0, small_base(tmp_path / "base")
    tree, sampler, learner, options = game_tree(game), Sampler(base), Learner(base), UpdateOptions()
    answers: list[TokenSequence] = []
    for chat in decision_chats(game):
        prompt = sampler.encode(chat.messages)
        for ids in sampler.tokenizer.encode_plain(list(chat.actions)):
            own = [*ids, sampler.end_ids[0]]
            places = [*range(len(prompt), len(prompt) + len(own))]
            some = [0.0] * len(own)
            # All of one trajectory, so that they are packed as one tree of tokens.
            answers.append(
                TokenSequence(0, 0, [*prompt, *own], places, some, some, 1.0, some, [0] * len(own))
            )
    [[batch]] = minibatches(answers, 1, 10**6, "0")
    own_pairs = tree.players == seat

    def logprobs() -> Tensor:
        tokens = learner.score(batch.packed, options).logprobs
        return tokens.new_zeros(len(answers)).index_add(0, batch.targets.answer_ids, tokens)

    def policy() -> np.ndarray:
        with torch.no_grad():
            scores = logprobs().double().numpy()
        return np.where(own_pairs, tree.softmax(scores), opponent)

    def loss(targets: np.ndarray) -> Iterator[Tensor]:
        yield -(torch.tensor(targets, dtype=torch.float32) * logprobs()).sum()

    opponent = tree.softmax(np.log(np.random.default_rng(7).exponential(size=len(tree.sets))))
    before = lost(tree, policy(), seat)
    for _ in range(60):
        # Cross-entropy towards e^(Q / 0.1): a best response with a little entropy.
        target = tree.softmax(tree.action_values(policy()) / 0.1)
        learner.descend(loss(np.where(own_pairs, target, 0.0)), UpdateOptions(learning_rate=3e-3))
    assert lost(tree, policy(), seat) < 0.05 < before
    learner.save(tmp_path / "model", {})

    async def played() -> list[float]:
        trained = Sampler(tmp_path / "model")
        logs = [await action_logprobs(trained, chat) for chat in decision_chats(game)]
        await trained.close()
        return [log for row in logs for log in row]

    scores = tree.softmax(np.array(asyncio.run(played())))
    assert np.where(own_pairs, scores, opponent) == pytest.approx(policy(), abs=1e-3)
